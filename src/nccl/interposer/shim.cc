// SPDX-License-Identifier: Apache-2.0
#include "nccl/interposer/shim.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <thread>

#include "base/config.h"
#include "base/guarded.h"
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
using collectives::Plain;

std::atomic<Shim*> installed{nullptr};

/// A group of this thread, as NCCL has it. Its calls get their places in the histories when it
/// ends: a group that was only simulated, or has lost a communicator, leaves no trace in them.
struct Group {
  int depth = 0;
  std::vector<Operation> calls;
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
  settings.obstacle = TheRealLibrary().obstacle;
  if (config.fused) settings.peer_path = &collectives::MakeFusedPath;
  return new Shim(TheRealLibrary().api, collectives::CudaDevice(), std::move(settings));
}

constexpr auto kSettleInterval = std::chrono::microseconds(50);

bool Reduces(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter;
}

/// A reduction operator that the application has made, it may destroy when the call returns.
bool HasOwnOperator(const Operation& operation) {
  return Reduces(operation.kind) && operation.reduction >= collectives::kNcclReductionCount;
}

void WaitUntilNothingQueues(const Communicator& comm) {
  while (comm.queued.load() != 0 && !comm.aborted.load()) {
    std::this_thread::sleep_for(kSettleInterval);
  }
}

/// So that nobody makes calls of a shadow communicator while it is aborted. Whoever is still making
/// one after a second may be stuck in NCCL, and then the abort is what gets it out.
std::unique_lock<std::mutex> LockShadow(Communicator& comm) {
  constexpr auto kPatience = std::chrono::seconds(1);
  std::unique_lock lock(comm.shadow_mutex(), std::try_to_lock);
  const auto start = std::chrono::steady_clock::now();
  while (!lock.owns_lock() && std::chrono::steady_clock::now() - start < kPatience) {
    std::this_thread::sleep_for(kSettleInterval);
    (void)lock.try_lock();
  }
  return lock;
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
  // Where everything passes through, this is all that a call pays.
  if (known_.load(std::memory_order_acquire) == 0) return nullptr;
  const std::shared_lock lock(mutex_);
  const auto found = comms_.find(nccl);
  return found == comms_.end() ? nullptr : found->second;
}

void Shim::AfterInit(NcclResult result, std::vector<NcclComm*> comms, const void* config) {
  // A communicator that is still being made is non-blocking too.
  if (result == collectives::kNcclInProgress || !IsBlocking(config)) {
    non_blocking_.fetch_add(comms.size());
    return;
  }
  if (result != kNcclSuccess || device_ == nullptr) return;
  if (settings_.options.policy == PolicyMode::kRaw || !settings_.obstacle.empty()) return;
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
    if (comm == nullptr || api_.comm_count(comm, &ranks) != kNcclSuccess) continue;
    if (ranks < 2) {
      of_one_rank_.fetch_add(1);
      continue;
    }
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
    not_split_.fetch_add(large.size());
    return;
  }
  std::vector<Communicator*> made;
  for (size_t i = 0; i < large.size(); ++i) {
    auto comm =
        std::make_shared<Communicator>(api_, device_, large[i], shadows[i], settings_.options);
    made.push_back(comm.get());
    const std::unique_lock lock(mutex_);
    comms_[large[i]] = std::move(comm);
    known_.store(comms_.size(), std::memory_order_release);
  }
  if (settings_.peer_path) collectives::OpenPeerPaths(made, settings_.peer_path);
}

NcclResult Shim::Call(NcclComm nccl, Operation operation) {
  const CommunicatorPointer comm = Find(nccl);
  if (comm == nullptr || comm->aborted.load(std::memory_order_relaxed)) {
    return collectives::CallNccl(api_, nccl, operation);
  }
  operation.comm = comm.get();
  if (!LooksValid(operation)) return collectives::CallNccl(api_, nccl, operation);
  const Plain why = comm->TakesPeerPath(operation) ? Plain::kNone : comm->WhyPlain(operation);
  if (why != Plain::kNone) comm->counters().AddPlain(why);
  const bool queues = comm->queued.load() != 0;
  if (why != Plain::kNone && group.depth == 0 && !queues) {
    return collectives::CallNccl(api_, nccl, operation);
  }
  const bool captured = device_->IsCapturing(operation.stream);
  if (captured || HasOwnOperator(operation)) {
    // Now, as it is; but not before what was enqueued earlier.
    if (why == Plain::kNone) comm->counters().AddPlain(Plain::kCaptured);
    WaitUntilNothingQueues(*comm);
    return collectives::CallNccl(api_, nccl, operation);
  }
  if (group.depth > 0) {
    group.calls.push_back(operation);
    if (std::ranges::find(group.keep_alive, comm) == group.keep_alive.end()) {
      group.keep_alive.push_back(comm);
    }
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

void Shim::BeforeSimulatedEnd() {
  if (group.depth > 1) {
    --group.depth;
    return;
  }
  const Group ended = std::exchange(group, {});
  for (const Operation& operation : ended.calls) {
    (void)collectives::CallNccl(api_, operation.comm->nccl(), operation);
  }
}

NcclResult Shim::RunGroup(std::vector<Operation> calls) {
  Job job;
  const Status status = Guarded([&] {
    for (const Operation& operation : calls) {
      const std::lock_guard lock(operation.comm->mutex());
      Admit(operation, &job);
    }
    return CINCH_OK;
  });
  if (status != CINCH_OK) {
    (void)api_.group_end();
    return collectives::kNcclSystemError;
  }
  const bool plain = std::ranges::all_of(job.operations, [](const Operation& operation) {
    return operation.key == nullptr && operation.comm->queued.load() == 0;
  });
  const bool mixed = !job.copies.empty() || !job.peer_operations.empty();
  if (!plain || mixed) return dispatcher_.Submit(std::move(job), true);
  for (const Operation& operation : job.operations) {
    (void)collectives::CallNccl(api_, operation.comm->nccl(), operation);
  }
  return api_.group_end();
}

NcclResult Shim::GroupEnd() {
  if (group.depth != 1) {
    if (group.depth > 1) --group.depth;
    return api_.group_end();
  }
  // The group is over whatever comes of it; what is called below may open one of its own.
  Group ended = std::exchange(group, {});
  const auto is_gone = [](const CommunicatorPointer& comm) {
    return comm->gone.load() || comm->aborted.load();
  };
  NcclResult result = kNcclSuccess;
  if (std::ranges::any_of(ended.keep_alive, is_gone)) {
    // NCCL would take a communicator that it has freed.
    result = api_.group_end();
    if (result == kNcclSuccess) result = collectives::kNcclInvalidUsage;
  } else {
    result = RunGroup(std::move(ended.calls));
  }
  AfterInit(result, std::move(ended.inits), nullptr);
  return result;
}

void Shim::Settle(NcclComm nccl) {
  const CommunicatorPointer comm = Find(nccl);
  if (comm != nullptr) WaitUntilNothingQueues(*comm);
}

void Shim::SettleAll() {
  std::vector<CommunicatorPointer> comms;
  {
    const std::shared_lock lock(mutex_);
    for (const auto& [nccl, comm] : comms_) comms.push_back(comm);
  }
  for (const CommunicatorPointer& comm : comms) WaitUntilNothingQueues(*comm);
}

Shim::CommunicatorPointer Shim::Remove(NcclComm nccl) {
  const std::unique_lock lock(mutex_);
  const auto found = comms_.find(nccl);
  if (found == comms_.end()) return nullptr;
  CommunicatorPointer comm = std::move(found->second);
  comms_.erase(found);
  known_.store(comms_.size(), std::memory_order_release);
  comm->gone.store(true);
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
  auto lock = LockShadow(*comm);
  comm->aborted.store(true);
  comm->AbortPeerPath();
  (void)api_.comm_abort(comm->shadow());
  if (lock.owns_lock()) lock.unlock();
  dispatcher_.Drop(*comm);
}

void Shim::BeforeRevoke(NcclComm nccl, int flags) {
  const CommunicatorPointer comm = Find(nccl);
  if (comm == nullptr) return;
  auto lock = LockShadow(*comm);
  if (comm->aborted.exchange(true)) return;
  comm->AbortPeerPath();
  if (api_.comm_revoke != nullptr) (void)api_.comm_revoke(comm->shadow(), flags);
  if (lock.owns_lock()) lock.unlock();
  dispatcher_.Drop(*comm);
}

NcclResult Shim::AsyncError(NcclComm nccl) {
  const CommunicatorPointer comm = Find(nccl);
  if (comm == nullptr) return kNcclSuccess;
  comm->CheckPeerPath();
  return comm->error.load();
}

namespace {

/// The reasons that occurred, or nothing.
std::string PlainText(const collectives::Counters& counters) {
  constexpr const char* kReasons[] = {
      "",         "small",         "integers",    "other reductions", "too many ranks",
      "captured", "to themselves", "switched off"};
  static_assert(std::size(kReasons) == static_cast<size_t>(Plain::kCount));
  std::string text;
  for (size_t i = 0; i < std::size(kReasons); ++i) {
    const uint64_t count = counters.plain[i].load();
    if (count == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "; plain: " : ", ", count, kReasons[i]);
  }
  return text;
}

}  // namespace

void Shim::AddToReport(Communicator& comm) {
  const collectives::Counters& counters = comm.counters();
  const uint64_t original = counters.original_bytes.load();
  const uint64_t wire = counters.wire_bytes.load();
  const double kept = original == 0 ? 1 : static_cast<double>(wire) / static_cast<double>(original);
  finished_ += fmt::format(
      "cinch: pid {} rank {}/{}: {} operations could be compressed, {} were; {:.1f} MB sent as "
      "{:.1f} MB (kept {:.3f}); {} frames did not fit, {} jobs were enqueued later{}\n",
      getpid(), comm.rank(), comm.ranks(), counters.operations.load(),
      counters.compressed_operations.load(), static_cast<double>(original) / 1e6,
      static_cast<double>(wire) / 1e6, kept, counters.overflows.load(), counters.delegated.load(),
      PlainText(counters));
  const uint64_t over_peers = counters.over_peers.load();
  if (over_peers == 0) return;
  finished_ += fmt::format("cinch: pid {} rank {}/{}: {} operations went over peer memory\n",
                           getpid(), comm.rank(), comm.ranks(), over_peers);
}

std::string Shim::Report() {
  const std::unique_lock lock(mutex_);
  const std::string before = finished_;
  for (const auto& [nccl, comm] : comms_) AddToReport(*comm);
  const auto add = [this](uint64_t count, const char* what) {
    if (count == 0) return;
    finished_ +=
        fmt::format("cinch: pid {}: {} communicators passed through: {}\n", getpid(), count, what);
  };
  add(non_blocking_.load(), "non-blocking");
  add(of_one_rank_.load(), "of one rank");
  add(not_split_.load(), "NCCL could not split them");
  if (settings_.options.policy == PolicyMode::kRaw) {
    finished_ +=
        fmt::format("cinch: pid {}: everything passed through: CINCH_POLICY=raw\n", getpid());
  } else if (device_ == nullptr) {
    finished_ +=
        fmt::format("cinch: pid {}: everything passed through: built without CUDA\n", getpid());
  } else if (!settings_.obstacle.empty()) {
    finished_ += fmt::format("cinch: pid {}: everything passed through: NCCL: {}\n", getpid(),
                             settings_.obstacle);
  }
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
