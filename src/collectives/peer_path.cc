// SPDX-License-Identifier: Apache-2.0
#include "collectives/peer_path.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "base/status.h"
#include "collectives/communicator.h"

namespace cinch::collectives {
namespace {

/// One communicator's part of a gathering.
class Round {
 public:
  Round(const Gathering& gathering, size_t bytes_each)
      : comm_(*gathering.comm), gathering_(gathering), bytes_(bytes_each) {}
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;
  ~Round() {
    const int previous = comm_.device().Select(comm_.ordinal());
    if (event_ != nullptr) comm_.device().DestroyEvent(event_);
    if (memory_ != nullptr) comm_.device().Free(comm_.repair_stream(), memory_);
    comm_.device().Select(previous);
    if (page_ != nullptr) ReturnPinnedPage(&comm_.device(), page_, PageUse::kHeaders);
  }

  Status Start() {
    if (AllBytes() > kPinnedPageBytes) return CINCH_ERROR_UNSUPPORTED;
    Device& device = comm_.device();
    const int previous = device.Select(comm_.ordinal());
    page_ = static_cast<uint8_t*>(TakePinnedPage(&device, PageUse::kHeaders));
    Status status = page_ == nullptr ? CINCH_ERROR_OUT_OF_MEMORY : device.CreateEvent(&event_);
    if (status == CINCH_OK) status = device.Allocate(comm_.repair_stream(), AllBytes(), &memory_);
    if (status == CINCH_OK) {
      std::memcpy(page_, gathering_.send, bytes_);
      status = device.Copy(comm_.repair_stream(), memory_, page_, bytes_);
    }
    device.Select(previous);
    return status;
  }
  NcclResult Post() const {
    return comm_.api().all_gather(memory_, Gathered(), bytes_, kNcclUint8, comm_.shadow(),
                                  comm_.repair_stream());
  }
  Status Finish() {
    Device& device = comm_.device();
    const int previous = device.Select(comm_.ordinal());
    Status status = device.Copy(comm_.repair_stream(), page_, Gathered(), AllBytes() - bytes_);
    if (status == CINCH_OK) status = device.RecordEvent(event_, comm_.repair_stream());
    const auto start = std::chrono::steady_clock::now();
    const std::chrono::duration<double> most(comm_.timeout_seconds());
    while (status == CINCH_OK) {
      status = device.QueryEvent(event_);
      if (status != CINCH_IN_PROGRESS) break;
      status = CINCH_OK;
      if (std::chrono::steady_clock::now() - start > most) status = CINCH_ERROR_TIMEOUT;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    if (status == CINCH_OK) std::memcpy(gathering_.receive, page_, AllBytes() - bytes_);
    device.Select(previous);
    // Not given back while a copy may still write it.
    if (status == CINCH_ERROR_TIMEOUT) page_ = nullptr;
    return status;
  }

 private:
  [[nodiscard]] uint64_t AllBytes() const {
    return bytes_ * (static_cast<uint64_t>(comm_.ranks()) + 1);
  }
  [[nodiscard]] uint8_t* Gathered() const { return static_cast<uint8_t*>(memory_) + bytes_; }

  Communicator& comm_;
  Gathering gathering_;
  uint64_t bytes_;
  uint8_t* page_ = nullptr;
  void* memory_ = nullptr;
  Event event_ = nullptr;
};

int GatherForPath(void* context, const void* send, void* receive, size_t bytes_each) {
  const Gathering one{static_cast<Communicator*>(context), send, receive};
  return GatherOverShadows({&one, 1}, bytes_each) == CINCH_OK ? 0 : 1;
}

/// For each communicator, whether every rank says yes.
std::vector<bool> AllSay(std::span<Communicator* const> comms, const std::vector<bool>& says) {
  std::vector<uint32_t> own(comms.size());
  std::vector<std::vector<uint32_t>> answers;
  std::vector<Gathering> gatherings;
  for (size_t i = 0; i < comms.size(); ++i) {
    own[i] = says[i] ? 1 : 0;
    answers.emplace_back(static_cast<size_t>(comms[i]->ranks()), 0U);
  }
  for (size_t i = 0; i < comms.size(); ++i) {
    gatherings.push_back({comms[i], &own[i], answers[i].data()});
  }
  std::vector<bool> all(comms.size(), false);
  if (GatherOverShadows(gatherings, sizeof(uint32_t)) != CINCH_OK) return all;
  for (size_t i = 0; i < comms.size(); ++i) {
    all[i] = std::ranges::all_of(answers[i], [](uint32_t word) { return word == 1; });
  }
  return all;
}

}  // namespace

Status GatherOverShadows(std::span<const Gathering> gatherings, size_t bytes_each) {
  std::vector<std::unique_ptr<Round>> rounds;
  for (const Gathering& gathering : gatherings) {
    rounds.push_back(std::make_unique<Round>(gathering, bytes_each));
    CINCH_RETURN_IF_ERROR(rounds.back()->Start());
  }
  if (rounds.empty()) return CINCH_OK;
  const NcclApi& api = gatherings.front().comm->api();
  NcclResult result = api.group_start();
  for (const auto& round : rounds) {
    if (result == kNcclSuccess) result = round->Post();
  }
  const NcclResult ended = api.group_end();
  if (result != kNcclSuccess || ended != kNcclSuccess) return CINCH_ERROR_TRANSPORT;
  for (const auto& round : rounds) CINCH_RETURN_IF_ERROR(round->Finish());
  return CINCH_OK;
}

void KeepPeerPath(std::unique_ptr<PeerPath> path) {
  if (path == nullptr) return;
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::unique_ptr<PeerPath>>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(path));
}

void OpenPeerPaths(std::span<Communicator* const> comms, const PeerPathMaker& maker) {
  const auto may = [&](Communicator* comm) {
    return comms.size() == 1 && comm->usable() && comm->ranks() <= CINCH_FUSED_MAX_RANKS;
  };
  std::vector<bool> says;
  for (Communicator* comm : comms) says.push_back(may(comm));
  const std::vector<bool> agreed = AllSay(comms, says);
  if (comms.size() != 1 || !agreed.front()) return;
  Communicator* comm = comms.front();
  const int previous = comm->device().Select(comm->ordinal());
  std::unique_ptr<PeerPath> path =
      maker({comm->rank(), comm->ranks(), comm->timeout_seconds(), &GatherForPath, comm});
  comm->device().Select(previous);
  const bool open = AllSay(comms, {path != nullptr}).front();
  if (open) {
    comm->SetPeerPath(std::move(path));
  } else {
    Log(LogLevel::kInfo, "rank {} of {}: not all ranks reach each other's memory", comm->rank(),
        comm->ranks());
    KeepPeerPath(std::move(path));
  }
}

}  // namespace cinch::collectives
