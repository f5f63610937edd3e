// SPDX-License-Identifier: Apache-2.0
#include "collectives/dispatcher.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "base/guarded.h"
#include "base/log.h"
#include "base/status.h"

namespace cinch::collectives {
namespace {

// A frame that does not fit is rare, and a stream waits for what was not decided only at the start:
// this is a bound on how much later they go on, and on what the thread costs meanwhile.
constexpr auto kPollInterval = std::chrono::microseconds(50);

using Locks = std::vector<std::unique_lock<std::mutex>>;

/// All at once and in one order, so that two threads cannot wait for each other.
Locks LockAll(const std::vector<Communicator*>& comms) {
  Locks locks;
  for (Communicator* comm : comms) locks.emplace_back(comm->mutex());
  return locks;
}

NcclResult ResultOf(Status status) {
  return status == CINCH_OK ? kNcclSuccess : kNcclUnhandledCudaError;
}

/// The streams of a job on a communicator.
std::set<Stream> StreamsOf(const Job& job, const Communicator* comm) {
  std::set<Stream> streams;
  for (const Operation& operation : job.operations) {
    if (operation.comm == comm) streams.insert(operation.stream);
  }
  for (const Job::OwnCopy& copy : job.copies) {
    if (copy.comm == comm) streams.insert(copy.stream);
  }
  return streams;
}

/// An event behind everything that is on `stream`.
Status Mark(Communicator* comm, Stream stream, std::vector<Event>* events) {
  Event event = nullptr;
  CINCH_RETURN_IF_ERROR(comm->device().CreateEvent(&event));
  events->push_back(event);
  return comm->device().RecordEvent(event, stream);
}

}  // namespace

Dispatcher::~Dispatcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Dispatcher::EnsureThread() {
  if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
}

NcclResult Dispatcher::Submit(Job job, bool group_is_open) {
  const NcclApi* api =
      job.peer_operations.empty() ? nullptr : &job.peer_operations.front().comm->api();
  const NcclResult peer_result = RunPeerOperations(&job);
  const std::vector<Communicator*> comms = CommunicatorsOf(job);
  if (peer_result != kNcclSuccess || comms.empty()) {
    // What is left of the group is nothing, or is not to be launched.
    const NcclResult ended = group_is_open && api != nullptr ? api->group_end() : kNcclSuccess;
    return peer_result != kNcclSuccess ? peer_result : ended;
  }
  // A stream that waits for the dispatcher is in danger: when the application then frees device
  // memory or loads a kernel, it holds the driver's lock until the stream goes on, and the
  // dispatcher needs that lock. So a call is patient first.
  const std::chrono::duration<double> patience(comms.front()->patience_seconds());
  const auto start = std::chrono::steady_clock::now();
  do {
    Locks locks = LockAll(comms);
    if (std::ranges::any_of(comms, [](Communicator* comm) { return comm->queued != 0; })) break;
    if (IsDecided(job)) {
      const NcclResult result = RunJob(job, group_is_open, false, this);
      const bool cautious = TakeCaution(comms);
      locks.clear();
      if (cautious && result == kNcclSuccess) WaitUntilSettled(comms);
      return result;
    }
    locks.clear();
    std::this_thread::sleep_for(kPollInterval);
  } while (std::chrono::steady_clock::now() - start < patience);
  if (group_is_open) {
    const NcclResult result = comms.front()->api().group_end();
    if (result != kNcclSuccess) return result;
  }
  return Delegate(std::move(job));
}

bool Dispatcher::TakeCaution(const std::vector<Communicator*>& comms) {
  bool cautious = false;
  for (Communicator* comm : comms) {
    cautious = cautious || comm->wait_wanted || comm->caution.load() > 0;
    comm->wait_wanted = false;
    if (comm->caution.load() > 0) comm->caution.fetch_sub(1);
  }
  return cautious;
}

void Dispatcher::WaitUntilSettled(const std::vector<Communicator*>& comms) {
  const std::chrono::duration<double> patience(comms.front()->patience_seconds());
  const auto start = std::chrono::steady_clock::now();
  const auto pending = [](Communicator* comm) { return comm->watched.load() != 0; };
  while (std::ranges::any_of(comms, pending)) {
    if (std::chrono::steady_clock::now() - start > patience) return;
    std::this_thread::sleep_for(kPollInterval);
  }
}

NcclResult Dispatcher::Delegate(Job job) {
  auto delegated = std::make_unique<DelegatedJob>();
  std::vector<std::pair<DelegatedJob::Part, std::set<Stream>>> waits;
  for (Communicator* comm : CommunicatorsOf(job)) {
    const std::lock_guard lock(comm->mutex());
    const int previous = comm->device().Select(comm->ordinal());
    const std::set<Stream> streams = StreamsOf(job, comm);
    Status status = CINCH_OK;
    std::vector<Event> reached;
    for (Stream stream : streams) {
      if (status == CINCH_OK) status = Mark(comm, stream, &reached);
    }
    comm->device().Select(previous);
    StepRecord* record = comm->NewStepRecord();
    if (status != CINCH_OK || record == nullptr) return kNcclUnhandledCudaError;
    comm->counters().delegated.fetch_add(1, std::memory_order_relaxed);
    delegated->parts.push_back({comm->shared_from_this(), record, record->target, reached});
    waits.emplace_back(delegated->parts.back(), streams);
  }
  delegated->job = std::move(job);
  for (const auto& [part, streams] : waits) part.comm->queued.fetch_add(1);
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(delegated));
    EnsureThread();
  }
  wake_.notify_all();
  Status status = CINCH_OK;
  for (const auto& [part, streams] : waits) {
    Device& device = part.comm->device();
    const int previous = device.Select(part.comm->ordinal());
    for (Stream stream : streams) {
      if (status == CINCH_OK) status = device.WaitFlag(stream, &part.record->flag, part.target);
    }
    device.Select(previous);
  }
  return ResultOf(status);
}

void Dispatcher::Add(std::vector<std::unique_ptr<Errand>> errands) {
  {
    const std::lock_guard lock(mutex_);
    EnsureThread();
    for (std::unique_ptr<Errand>& errand : errands) {
      const std::shared_ptr<Communicator> comm = errand->comm();
      watched_[comm.get()].push_back(std::move(errand));
      comm->watched.fetch_add(1);
    }
  }
  wake_.notify_all();
}

void Dispatcher::Watch(WatchedStep step) {
  std::vector<std::unique_ptr<Errand>> errands;
  errands.push_back(std::make_unique<Repair>(std::move(step)));
  Add(std::move(errands));
}

void Dispatcher::Prepare(std::shared_ptr<Preparation> preparation) {
  std::vector<std::unique_ptr<Errand>> errands;
  for (size_t i = 0; i < preparation->parts(); ++i) {
    errands.push_back(std::make_unique<PreparationErrand>(preparation, i));
  }
  Add(std::move(errands));
}

bool Dispatcher::IsBlocked(size_t index) const {
  const auto shares = [&](const std::unique_ptr<DelegatedJob>& earlier) {
    return std::ranges::any_of(earlier->parts, [&](const DelegatedJob::Part& a) {
      return std::ranges::any_of(jobs_[index]->parts,
                                 [&](const DelegatedJob::Part& b) { return a.comm == b.comm; });
    });
  };
  return std::any_of(jobs_.begin(), jobs_.begin() + static_cast<std::ptrdiff_t>(index), shares);
}

NcclResult Dispatcher::Run(DelegatedJob* delegated) {
  for (const DelegatedJob::Part& part : delegated->parts) {
    if (part.dropped) continue;
    Device& device = part.comm->device();
    device.Select(part.comm->ordinal());
    // Now, not earlier: what the job's streams wait for themselves is on this stream by now.
    for (Event event : part.reached) {
      if (device.WaitEvent(part.comm->helper_stream(), event) != CINCH_OK) {
        return kNcclUnhandledCudaError;
      }
    }
  }
  return RunJob(delegated->job, false, true, this);
}

bool Dispatcher::TryRun(DelegatedJob* delegated) {
  // What a group had for a communicator that was aborted is left out; the rest goes on, as its
  // other ranks do not know of that.
  DropAborted(delegated);
  const bool dropped = CommunicatorsOf(delegated->job).empty();
  NcclResult result = dropped ? kNcclSuccess : kNcclSystemError;
  for (const DelegatedJob::Part& part : delegated->parts) {
    guard_.Enter(part.comm.get(), &part.record->flag, part.target);
  }
  bool decided = true;
  if (!dropped) {
    // Whatever is thrown costs this job, not the process.
    Guarded([&] {
      const Locks locks = LockAll(CommunicatorsOf(delegated->job));
      decided = IsDecided(delegated->job);
      if (decided) result = Run(delegated);
    });
  }
  if (decided) Release(delegated, result);
  guard_.Leave();
  return decided;
}

void Dispatcher::DropAborted(DelegatedJob* delegated) {
  for (DelegatedJob::Part& part : delegated->parts) {
    if (part.dropped || !part.comm->aborted.load()) continue;
    part.dropped = true;
    const auto is_of_it = [&](const auto& piece) { return piece.comm == part.comm.get(); };
    std::erase_if(delegated->job.operations, is_of_it);
    std::erase_if(delegated->job.copies, is_of_it);
  }
}

void Dispatcher::Release(DelegatedJob* delegated, NcclResult result) {
  for (const DelegatedJob::Part& part : delegated->parts) {
    Device& device = part.comm->device();
    device.Select(part.comm->ordinal());
    const bool enqueued =
        result == kNcclSuccess && !part.dropped &&
        device.SetFlag(part.comm->helper_stream(), &part.record->flag, part.target) == CINCH_OK;
    if (!enqueued) {
      if (!part.dropped) part.comm->error.store(result == kNcclSuccess ? kNcclSystemError : result);
      __atomic_store_n(&part.record->flag, part.target, __ATOMIC_RELEASE);
    }
    for (Event event : part.reached) device.DestroyEvent(event);
    part.comm->RecycleLater(part.record);
    part.comm->queued.fetch_sub(1);
  }
}

bool Dispatcher::RunDelegated() {
  bool any = false;
  std::unique_lock lock(mutex_);
  for (size_t i = 0; i < jobs_.size();) {
    if (IsBlocked(i)) {
      ++i;
      continue;
    }
    DelegatedJob* delegated = jobs_[i].get();
    // The job stays in the queue meanwhile, so that what comes after it waits.
    lock.unlock();
    const bool done = TryRun(delegated);
    lock.lock();
    if (!done) {
      ++i;
      continue;
    }
    any = true;
    jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return any;
}

void Dispatcher::Advance(Errand* errand, bool* settled) {
  const bool guarded = errand->NeedsDevice();
  if (guarded) guard_.Enter(errand->comm().get(), errand->flag(), errand->target());
  const Status status = Guarded([&] {
    *settled = errand->Advance();
    return CINCH_OK;
  });
  if (status != CINCH_OK) {
    errand->comm()->error.store(kNcclSystemError);
    errand->GiveUp();
    *settled = true;
  }
  if (guarded) guard_.Leave();
}

bool Dispatcher::Poll() {
  bool any = false;
  std::unique_lock lock(mutex_);
  for (auto entry = watched_.begin(); entry != watched_.end();) {
    auto& steps = entry->second;
    while (!steps.empty()) {
      Errand* errand = steps.front().get();
      const std::shared_ptr<Communicator> comm = errand->comm();
      lock.unlock();
      bool settled = false;
      Advance(errand, &settled);
      if (!settled && comm->aborted.load()) {
        errand->GiveUp();
        settled = true;
      }
      lock.lock();
      if (!settled) break;
      any = true;
      steps.pop_front();
      comm->watched.fetch_sub(1);
    }
    entry = steps.empty() ? watched_.erase(entry) : std::next(entry);
  }
  return any;
}

void Dispatcher::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stop_ || !jobs_.empty() || !watched_.empty(); });
    if (stop_) return;
    lock.unlock();
    const bool ran = RunDelegated();
    const bool settled = Poll();
    if (!ran && !settled) std::this_thread::sleep_for(kPollInterval);
    lock.lock();
  }
}

void Dispatcher::Drain(const Communicator& comm) {
  while (!comm.aborted.load() && (comm.queued.load() != 0 || comm.watched.load() != 0)) {
    std::this_thread::sleep_for(kPollInterval);
  }
}

void Dispatcher::Drop(const Communicator& comm) {
  // The thread sees `aborted` and lets everything go.
  while (comm.queued.load() != 0 || comm.watched.load() != 0) {
    std::this_thread::sleep_for(kPollInterval);
  }
}

}  // namespace cinch::collectives
