// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "transfer/clock.h"

namespace cinch::transfer {

/// Imitates a link of a fixed rate that carries one thing after another: what is put on it at a
/// time is through when the link has carried everything before it and the thing itself.
class Pacer {
 public:
  /// `gbps` is 10^9 bits a second; 0 does not pace.
  explicit Pacer(double gbps) : bytes_per_second_(gbps * 1e9 / 8) {}

  [[nodiscard]] bool paces() const { return bytes_per_second_ > 0; }
  /// When everything that was put on the link is through.
  [[nodiscard]] TimePoint free_at() const { return free_at_; }

  /// Puts `bytes`, which were ready at `ready_at`, on the link; returns when they are through.
  TimePoint Carry(uint64_t bytes, TimePoint ready_at) {
    if (!paces()) return ready_at;
    const double seconds = static_cast<double>(bytes) / bytes_per_second_;
    free_at_ = std::max(free_at_, ready_at) + FromSeconds(seconds);
    return free_at_;
  }

 private:
  double bytes_per_second_;
  TimePoint free_at_{};
};

}  // namespace cinch::transfer
