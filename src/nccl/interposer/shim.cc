// SPDX-License-Identifier: Apache-2.0
#include "nccl/interposer/shim.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "base/config.h"
#include "base/log.h"
#include "nccl/interposer/real_library.h"

namespace cinch::nccl {
namespace {

using collectives::Communicator;
using collectives::Job;
using collectives::Kind;
using collectives::kNcclSuccess;
using collectives::NcclComm;
using collectives::NcclResult;
using collectives::Operation;

std::atomic<Shim*> installed{nullptr};

/// A group of this thread, as NCCL has it.
struct Group {
  int depth = 0;
  Job job;
  std::vector<std::shared_ptr<Communicator>> keep_alive;
  std::vector<NcclComm*> inits;
};
thread_local Group group;

Shim* MakeShim() {
  const Config& config = ProcessConfig();
  ShimSettings settings;
  settings.options.policy = config.policy;
  settings.options.min_bytes = config.collectives_min_bytes;
  settings.options.timeout_seconds = config.timeout_seconds;
  settings.report = config.nccl_report;
  if (config.fused) settings.peer_path = &collectives::MakeFusedPath;
  return new Shim(TheRealLibrary().api, collectives::CudaDevice(), std::move(settings));
}

/// Calls that NCCL refuses at once go to it, so that it says what is wrong. Buffers of ranks that
/// have no part in an operation may be null.
bool LooksValid(const Operation& operation) {
  const Communicator& comm = *operation.comm;
  if (collectives::NcclDtypeBytes(operation.dtype) == 0) return false;
  if (operation.peer < 0 || operation.peer >= comm.ranks()) return false;
  if (operation.count == 0) return true;
  const bool root = operation.peer == comm.rank();
  const bool sends =
      operation.kind != Kind::kReceive &&
      ((operation.kind != Kind::kBroadcast && operation.kind != Kind::kScatter) || root);
  const bool receives =
      operation.kind != Kind::kSend &&
      ((operation.kind != Kind::kReduce && operation.kind != Kind::kGather) || root);
  return (!sends || operation.send != nullptr) && (!receives || operation.receive != nullptr);
}

}  // namespace

bool IsBlocking(const void* config) {
  // The start of ncclConfig_t, which only ever grows at its end.
  struct Start {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int blocking;
  };
  const auto* start = static_cast<const Start*>(config);
  return start == nullptr || start->size < sizeof(Start) || start->blocking != 0;
}

Shim::Shim(const collectives::NcclApi& api, collectives::Device* device, ShimSettings settings)
    : api_(api), device_(device), settings_(std::move(settings)) {}

Shim::~Shim() = default;

Shim& Shim::Get() {
  Shim* shim = installed.load(std::memory_order_acquire);
  if (shim != nullptr) return *shim;
  static Shim* const made = [] {
    Shim* one = MakeShim();
    if (!one->settings_.report.empty()) std::atexit([] { Get().WriteReport(); });
    return one;
  }();
  installed.store(made, std::memory_order_release);
  return *made;
}

void Shim::InstallForTesting(Shim* shim) { installed.store(shim); }

bool Shim::IsKnown(NcclComm parent) { return Find(parent) != nullptr; }

Shim::CommunicatorPointer Shim::Find(NcclComm nccl) {
  const std::shared_lock lock(mutex_);
  const auto found = comms_.find(nccl);
  return found == comms_.end() ? nullptr : found->second;
}

void Shim::AfterInit(NcclResult result, std::vector<NcclComm*> comms) {
  // A communicator that is still being made is non-blocking: those are passed through.
  if (result != kNcclSuccess || device_ == nullptr) return;
  if (settings_.options.policy == PolicyMode::kRaw) return;
  if (group.depth > 0) {
    group.inits.insert(group.inits.end(), comms.begin(), comms.end());
    return;
  }
  std::vector<NcclComm> made;
  made.reserve(comms.size());
  for (NcclComm* comm : comms) made.push_back(*comm);
  Adopt(made);
}

void Shim::Adopt(const std::vector<NcclComm>& comms) {
  std::vector<NcclComm> large;
  for (NcclComm comm : comms) {
    int ranks = 0;
    // Splitting makes no communicator for ranks without a colour.
    if (comm == nullptr || api_.comm_count(comm, &ranks) != kNcclSuccess || ranks < 2) continue;
    large.push_back(comm);
  }
  std::vector<NcclComm> shadows(large.size(), nullptr);
  if (large.empty()) return;
  NcclResult result = api_.group_start();
  for (size_t i = 0; i < large.size() && result == kNcclSuccess; ++i) {
    int rank = 0;
    (void)api_.comm_rank(large[i], &rank);
    result = api_.comm_split(large[i], 0, rank, &shadows[i], nullptr);
  }
  const NcclResult ended = api_.group_end();
  if (result != kNcclSuccess || ended != kNcclSuccess) {
    Log(LogLevel::kError, "communicators are passed through: splitting them failed ({}, {})",
        result, ended);
    return;
  }
  std::vector<Communicator*> made;
  for (size_t i = 0; i < large.size(); ++i) {
    auto comm =
        std::make_shared<Communicator>(api_, device_, large[i], shadows[i], settings_.options);
    made.push_back(comm.get());
    const std::unique_lock lock(mutex_);
    comms_[large[i]] = std::move(comm);
  }
  if (settings_.peer_path) collectives::OpenPeerPaths(made, settings_.peer_path);
}

NcclResult Shim::Call(NcclComm nccl, Operation operation) {
  const CommunicatorPointer comm = Find(nccl);
  if (comm == nullptr) return collectives::CallNccl(api_, nccl, operation);
  operation.comm = comm.get();
  if (!LooksValid(operation)) return collectives::CallNccl(api_, nccl, operation);
  const bool eligible = comm->TakesPeerPath(operation) || comm->IsEligible(operation);
  if (group.depth == 0 && !eligible && comm->queued.load() == 0) {
    return collectives::CallNccl(api_, nccl, operation);
  }
  if (device_->IsCapturing(operation.stream)) {
    // A graph takes NCCL as it is. What was enqueued before must not come after it.
    while (comm->queued.load() != 0) usleep(50);
    return collectives::CallNccl(api_, nccl, operation);
  }
  if (group.depth > 0) {
    const std::lock_guard lock(comm->mutex());
    Admit(operation, &group.job);
    group.keep_alive.push_back(comm);
    return kNcclSuccess;
  }
  Job job;
  {
    const std::lock_guard lock(comm->mutex());
    Admit(operation, &job);
  }
  return dispatcher_.Submit(std::move(job), false);
}

NcclResult Shim::GroupStart() {
  const NcclResult result = api_.group_start();
  if (result == kNcclSuccess) ++group.depth;
  return result;
}

void Shim::FlushGroup() {
  for (const Operation& operation : group.job.operations) {
    (void)collectives::CallNccl(api_, operation.comm->nccl(), operation);
  }
  for (const Operation& operation : group.job.peer_operations) {
    (void)collectives::CallNccl(api_, operation.comm->nccl(), operation);
  }
  group = {};
}

NcclResult Shim::GroupEnd() {
  if (group.depth != 1) {
    if (group.depth > 1) --group.depth;
    return api_.group_end();
  }
  // The group is over whatever comes of it; what is called below may open one of its own.
  Group ended = std::move(group);
  group = {};
  const bool plain = std::ranges::all_of(ended.job.operations, [](const Operation& operation) {
    return operation.key == nullptr && operation.comm->queued.load() == 0;
  });
  NcclResult result = kNcclSuccess;
  if (plain && ended.job.copies.empty() && ended.job.peer_operations.empty()) {
    for (const Operation& operation : ended.job.operations) {
      (void)collectives::CallNccl(api_, operation.comm->nccl(), operation);
    }
    result = api_.group_end();
  } else {
    result = dispatcher_.Submit(std::move(ended.job), true);
  }
  if (result == kNcclSuccess && !ended.inits.empty()) {
    AfterInit(result, ended.inits);
  }
  return result;
}

Shim::CommunicatorPointer Shim::Remove(NcclComm nccl) {
  const std::unique_lock lock(mutex_);
  const auto found = comms_.find(nccl);
  if (found == comms_.end()) return nullptr;
  CommunicatorPointer comm = std::move(found->second);
  comms_.erase(found);
  AddToReport(*comm);
  return comm;
}

void Shim::BeforeFinalize(NcclComm nccl) {
  const CommunicatorPointer comm = Find(nccl);
  if (comm != nullptr) dispatcher_.Drain(*comm);
}

void Shim::BeforeDestroy(NcclComm nccl) {
  const CommunicatorPointer comm = Remove(nccl);
  if (comm == nullptr) return;
  dispatcher_.Drain(*comm);
  (void)api_.comm_destroy(comm->shadow());
}

void Shim::BeforeAbort(NcclComm nccl) {
  const CommunicatorPointer comm = Remove(nccl);
  if (comm == nullptr) return;
  comm->aborted.store(true);
  comm->AbortPeerPath();
  (void)api_.comm_abort(comm->shadow());
  dispatcher_.Drop(*comm);
}

NcclResult Shim::AsyncError(NcclComm nccl) {
  const CommunicatorPointer comm = Find(nccl);
  if (comm == nullptr) return kNcclSuccess;
  comm->CheckPeerPath();
  return comm->error.load();
}

void Shim::AddToReport(Communicator& comm) {
  const collectives::Counters& counters = comm.counters();
  const uint64_t original = counters.original_bytes.load();
  const uint64_t wire = counters.wire_bytes.load();
  const double kept = original == 0 ? 1 : static_cast<double>(wire) / static_cast<double>(original);
  finished_ += fmt::format(
      "cinch: pid {} rank {}/{}: {} operations could be compressed, {} were; {:.1f} MB sent as "
      "{:.1f} MB (kept {:.3f}); {} frames did not fit, {} jobs were enqueued later\n",
      getpid(), comm.rank(), comm.ranks(), counters.operations.load(),
      counters.compressed_operations.load(), static_cast<double>(original) / 1e6,
      static_cast<double>(wire) / 1e6, kept, counters.overflows.load(), counters.delegated.load());
  const uint64_t over_peers = counters.over_peers.load();
  if (over_peers == 0) return;
  finished_ += fmt::format("cinch: pid {} rank {}/{}: {} operations went over peer memory\n",
                           getpid(), comm.rank(), comm.ranks(), over_peers);
}

std::string Shim::Report() {
  const std::unique_lock lock(mutex_);
  const std::string before = finished_;
  for (const auto& [nccl, comm] : comms_) AddToReport(*comm);
  return std::exchange(finished_, before);
}

void Shim::WriteReport() {
  const std::string text = Report();
  std::FILE* file =
      settings_.report == "stderr" ? stderr : std::fopen(settings_.report.c_str(), "a");
  if (file == nullptr) return;
  std::fputs(text.c_str(), file);
  if (file == stderr) {
    std::fflush(file);
  } else {
    std::fclose(file);
  }
}

}  // namespace cinch::nccl
