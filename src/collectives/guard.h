// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace cinch::collectives {

class Communicator;

/// Looks after a thread that calls the driver for streams that wait for it. When that takes longer
/// than a communicator's time-out, the streams are let go and the communicator has an error: the
/// application sees a failure instead of a standstill.
class Guard {
 public:
  Guard() = default;
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard();

  /// From now on `flag` (null: none) is set to `value` when Leave does not come in time.
  void Enter(Communicator* comm, uint32_t* flag, uint32_t value);
  void Leave();

 private:
  struct Entry {
    Communicator* comm;
    uint32_t* flag;
    uint32_t value;
    std::chrono::steady_clock::time_point deadline;
  };

  void Loop();
  void LetGo();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Entry> entries_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace cinch::collectives
