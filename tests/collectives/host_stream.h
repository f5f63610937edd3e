// SPDX-License-Identifier: Apache-2.0
/// @file host_stream.h
/// A stream that is a thread: what is enqueued runs later, in order, while the host goes on. Shared
/// by the test double of NCCL, which is a library of its own, and that of the device.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace cinch::testing {

class HostStream {
 public:
  HostStream() : thread_([this] { Run(); }) {}
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;
  virtual ~HostStream() {
    Enqueue({});
    thread_.join();
  }

  virtual void Enqueue(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    wake_.notify_all();
  }

  /// Waits until everything enqueued so far has run.
  void Synchronize() {
    std::mutex mutex;
    std::condition_variable done;
    bool passed = false;
    Enqueue([&] {
      const std::lock_guard lock(mutex);
      passed = true;
      done.notify_all();
    });
    std::unique_lock lock(mutex);
    done.wait(lock, [&] { return passed; });
  }

 private:
  void Run() {
    while (true) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return !tasks_.empty(); });
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      if (!task) return;
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  std::thread thread_;
};

}  // namespace cinch::testing
