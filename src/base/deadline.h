// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

namespace cinch {

/// A point on the monotonic clock up to which a wait may last. There is no infinite deadline on
/// purpose: every wait in cinch is bounded.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  /// The longest wait that can be asked for; larger values are clamped to it.
  static constexpr double kMaxSeconds = 30.0 * 24 * 3600;

  /// The deadline `seconds` from now; zero, negative and NaN give one that has already passed.
  [[nodiscard]] static Deadline After(double seconds) {
    const double bounded_seconds = seconds > 0 ? std::min(seconds, kMaxSeconds) : 0.0;
    return Deadline(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                       std::chrono::duration<double>(bounded_seconds)));
  }

  [[nodiscard]] bool expired() const { return Clock::now() >= time_point_; }
  [[nodiscard]] Clock::time_point time_point() const { return time_point_; }

  /// Time left in seconds, never negative.
  [[nodiscard]] double remaining_seconds() const {
    return std::max(0.0, std::chrono::duration<double>(time_point_ - Clock::now()).count());
  }

  /// Time left for poll(2) and its like: whole milliseconds, rounded up so that a loop over it
  /// does not spin through the last one.
  [[nodiscard]] int remaining_milliseconds() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(time_point_ - Clock::now());
    // kMaxSeconds in milliseconds exceeds an int; the caller's loop comes round again.
    constexpr std::chrono::milliseconds kMaxPoll = std::chrono::hours(24);
    return static_cast<int>(std::clamp(left, std::chrono::milliseconds(0), kMaxPoll).count());
  }

  /// The earlier of two deadlines.
  [[nodiscard]] static Deadline Earlier(Deadline left, Deadline right) {
    return left.time_point_ <= right.time_point_ ? left : right;
  }

 private:
  explicit Deadline(Clock::time_point time_point) : time_point_(time_point) {}

  Clock::time_point time_point_;
};

}  // namespace cinch
