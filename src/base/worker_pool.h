// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace cinch {

/// Cores that this process may run on, at least 1.
[[nodiscard]] uint32_t UsableCores();

/// A fixed set of threads for one handle. The threads start with the first call that needs them
/// and end with the pool; a system that refuses a thread leaves the pool with fewer, down to the
/// caller alone.
///
/// Thread-safe: calls from several threads take turns. A call from inside a running function is
/// served by that thread alone. The pool does not survive fork(): a child that inherits one must
/// make its own.
class WorkerPool {
 public:
  /// `threads` counts the caller; 0 takes UsableCores().
  explicit WorkerPool(uint32_t threads);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  ~WorkerPool();

  /// The most functions that ever run at once, the caller's included.
  [[nodiscard]] uint32_t thread_count() const { return thread_count_; }

  /// Calls function(index) or function(index, worker) once for each index in [0, count), in any
  /// order, and returns when all are done. The caller takes part. `worker` is below
  /// thread_count(), and no two running calls share it: it can select scratch memory. What the
  /// functions wrote is visible to the caller afterwards.
  template <typename Function>
  void ParallelFor(size_t count, Function&& function) {
    using Callable = std::remove_reference_t<Function>;
    if constexpr (std::is_invocable_v<Callable&, size_t, uint32_t>) {
      static_assert(std::is_nothrow_invocable_v<Callable&, size_t, uint32_t>,
                    "a thread has nowhere to throw to: mark the function noexcept");
      Run(count, Context(function), [](void* context, size_t index, uint32_t worker) noexcept {
        (*static_cast<Callable*>(context))(index, worker);
      });
    } else {
      static_assert(std::is_nothrow_invocable_v<Callable&, size_t>,
                    "a thread has nowhere to throw to: mark the function noexcept");
      Run(count, Context(function), [](void* context, size_t index, uint32_t) noexcept {
        (*static_cast<Callable*>(context))(index);
      });
    }
  }

 private:
  using Call = void (*)(void* context, size_t index, uint32_t worker) noexcept;
  struct Job;

  template <typename Callable>
  static void* Context(Callable& callable) {
    return const_cast<void*>(static_cast<const void*>(&callable));
  }

  void Run(size_t count, void* context, Call call);
  void StartWorkers(size_t needed);
  void WorkerLoop(uint32_t worker);
  void Drain(Job& job, uint32_t worker);

  const uint32_t thread_count_;
  std::mutex run_mutex_;  // Held by the caller whose job runs; guards workers_.
  std::vector<std::thread> workers_;

  std::mutex mutex_;  // Guards what follows.
  std::condition_variable job_posted_;
  std::condition_variable job_left_;
  Job* job_ = nullptr;
  uint64_t job_number_ = 0;
  uint32_t active_workers_ = 0;
  bool stopping_ = false;
};

}  // namespace cinch
