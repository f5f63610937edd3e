// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace cinch::cli {

/// A bar with rate and remaining time on standard error. Draws nothing when standard error is not
/// a terminal or when it is not wanted, so that logs stay readable. Not thread-safe.
class Progress {
 public:
  /// `total_bytes` may be 0: then only the amount and the rate are shown.
  Progress(std::string label, uint64_t total_bytes, bool wanted);
  /// Removes the bar.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Set(uint64_t done_bytes);
  void Advance(uint64_t bytes) { Set(done_bytes_ + bytes); }
  /// Removes the bar now, so that something else can be printed.
  void Finish();

 private:
  using Clock = std::chrono::steady_clock;
  void Draw();

  std::string label_;
  uint64_t total_bytes_;
  uint64_t done_bytes_ = 0;
  bool active_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_draw_ = start_;
};

/// Columns of the terminal on standard error; 80 when it does not say.
int TerminalColumns();

}  // namespace cinch::cli
