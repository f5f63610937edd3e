// SPDX-License-Identifier: Apache-2.0
#include "collectives/preparation.h"

#include <algorithm>

#include "base/log.h"
#include "base/status.h"

namespace cinch::collectives {
namespace {

// Each wire has memory of its own, whose content nobody looks at.
constexpr uint64_t kWireBytes = 256;
static_assert(kWireBytes >= sizeof(SlotHeader));

}  // namespace

bool Preparation::IsNext() const {
  return std::ranges::all_of(parts_,
                             [](const Part& part) { return part.comm->watched.load() == 0; });
}

Status Preparation::AllocateAll() {
  for (Part& part : parts_) {
    if (part.given_up) continue;
    Device& device = part.comm->device();
    device.Select(part.comm->ordinal());
    CINCH_RETURN_IF_ERROR(
        device.Allocate(part.comm->repair_stream(), part.wires.size() * kWireBytes, &part.memory));
  }
  return CINCH_OK;
}

NcclResult Preparation::PostPart(const Part& part) const {
  const NcclApi& api = part.comm->api();
  const NcclComm shadow = part.comm->shadow();
  const Stream stream = part.comm->repair_stream();
  auto* memory = static_cast<uint8_t*>(part.memory);
  NcclResult result = kNcclSuccess;
  for (const Wire& wire : part.wires) {
    if (wire.type == Wire::Type::kSend) {
      result = api.send(memory, wire.bytes, kNcclUint8, wire.peer, shadow, stream);
    } else if (wire.type == Wire::Type::kReceive) {
      result = api.receive(memory, wire.bytes, kNcclUint8, wire.peer, shadow, stream);
    } else {
      result = api.broadcast(memory, memory, wire.bytes, kNcclUint8, wire.peer, shadow, stream);
    }
    if (result != kNcclSuccess) return result;
    memory += kWireBytes;
  }
  return kNcclSuccess;
}

std::vector<std::unique_lock<std::mutex>> Preparation::LockShadows() {
  std::vector<Communicator*> comms;
  comms.reserve(parts_.size());
  for (const Part& part : parts_) comms.push_back(part.comm.get());
  // In one order, so that two threads cannot wait for each other.
  std::ranges::sort(comms);
  comms.erase(std::unique(comms.begin(), comms.end()), comms.end());
  std::vector<std::unique_lock<std::mutex>> locks;
  locks.reserve(comms.size());
  for (Communicator* comm : comms) locks.emplace_back(comm->shadow_mutex());
  for (Part& part : parts_) part.given_up = part.given_up || part.comm->aborted.load();
  return locks;
}

NcclResult Preparation::Post() {
  posted_ = true;
  if (parts_.empty()) return kNcclSuccess;
  const auto locks = LockShadows();
  const int previous = parts_.front().comm->device().Select(parts_.front().comm->ordinal());
  const NcclApi& api = parts_.front().comm->api();
  NcclResult result = AllocateAll() == CINCH_OK ? api.group_start() : kNcclSystemError;
  if (result == kNcclSuccess) {
    for (const Part& part : parts_) {
      if (result == kNcclSuccess && !part.given_up) result = PostPart(part);
    }
    const NcclResult ended = api.group_end();
    if (result == kNcclSuccess) result = ended;
  }
  for (const Part& part : parts_) {
    if (part.memory == nullptr) continue;
    part.comm->device().Select(part.comm->ordinal());
    part.comm->device().Free(part.comm->repair_stream(), part.memory);
  }
  parts_.front().comm->device().Select(previous);
  return result;
}

void Preparation::GiveUp(size_t part, bool* has_arrived) {
  parts_[part].given_up = true;
  (void)Arrive(has_arrived);
}

bool Preparation::Arrive(bool* has_arrived) {
  if (!*has_arrived) ++arrived_;
  *has_arrived = true;
  if (posted_ || arrived_ < parts_.size()) return posted_;
  const NcclResult result = Post();
  if (result == kNcclSuccess) return true;
  Log(LogLevel::kError, "connections for repairs could not be made: NCCL error {}", result);
  for (const Part& part : parts_) {
    if (!part.given_up) part.comm->error.store(result);
  }
  return true;
}

}  // namespace cinch::collectives
