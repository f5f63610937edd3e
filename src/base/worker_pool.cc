// SPDX-License-Identifier: Apache-2.0
#include "base/worker_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <system_error>
#include <utility>

namespace cinch {
namespace {

struct Place {
  const WorkerPool* pool = nullptr;
  uint32_t worker = 0;
};

// The pool for which this thread is running a function right now, if any.
thread_local Place t_place;

}  // namespace

uint32_t UsableCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) {
    return static_cast<uint32_t>(std::max(1, CPU_COUNT(&cores)));
  }
  // More cores than the set holds, or no such call.
  return std::max(1U, std::thread::hardware_concurrency());
}

struct WorkerPool::Job {
  void* context;
  Call call;
  size_t count;
  std::atomic<size_t> next{0};
};

WorkerPool::WorkerPool(uint32_t threads) : thread_count_(threads == 0 ? UsableCores() : threads) {}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  job_posted_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void WorkerPool::Run(size_t count, void* context, Call call) {
  if (count == 0) return;
  const bool nested = t_place.pool == this;
  if (nested || count == 1 || thread_count_ == 1) {
    // A nested caller keeps its own worker number: its siblings are running with theirs.
    std::unique_lock<std::mutex> turn;
    if (!nested) turn = std::unique_lock(run_mutex_);
    const Place outer = std::exchange(t_place, {this, nested ? t_place.worker : 0});
    for (size_t index = 0; index < count; ++index) call(context, index, t_place.worker);
    t_place = outer;
    return;
  }

  const std::lock_guard turn(run_mutex_);
  StartWorkers(std::min<size_t>(count, thread_count_) - 1);
  Job job{context, call, count};
  {
    const std::lock_guard lock(mutex_);
    job_ = &job;
    ++job_number_;
  }
  job_posted_.notify_all();
  Drain(job, 0);
  std::unique_lock lock(mutex_);
  // From here no late worker can enter the job, which lives on this stack.
  job_ = nullptr;
  job_left_.wait(lock, [this] { return active_workers_ == 0; });
}

void WorkerPool::StartWorkers(size_t needed) {
  try {
    workers_.reserve(needed);
    while (workers_.size() < needed) {
      const auto worker = static_cast<uint32_t>(workers_.size() + 1);
      workers_.emplace_back([this, worker] { WorkerLoop(worker); });
    }
  } catch (const std::system_error&) {
    // Fewer threads do the same work later.
  } catch (const std::bad_alloc&) {
  }
}

void WorkerPool::WorkerLoop(uint32_t worker) {
  uint64_t seen_job_number = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    job_posted_.wait(
        lock, [&] { return stopping_ || (job_ != nullptr && job_number_ != seen_job_number); });
    if (stopping_) return;
    seen_job_number = job_number_;
    Job& job = *job_;
    ++active_workers_;
    lock.unlock();
    Drain(job, worker);
    lock.lock();
    if (--active_workers_ == 0) job_left_.notify_one();
  }
}

void WorkerPool::Drain(Job& job, uint32_t worker) {
  const Place outer = std::exchange(t_place, {this, worker});
  // Relaxed: the counter only hands out numbers. The job's data are published, and its results
  // collected, under mutex_.
  for (size_t index; (index = job.next.fetch_add(1, std::memory_order_relaxed)) < job.count;) {
    job.call(job.context, index, worker);
  }
  t_place = outer;
}

}  // namespace cinch
