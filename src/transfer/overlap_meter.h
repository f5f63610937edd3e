// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "transfer/clock.h"

namespace cinch::transfer {

/// Measures for how long a wire and a codec were busy, and for how long both were at once. Each
/// may be busy with several things; times must not go backwards (later calls with an earlier time
/// count as now).
class OverlapMeter {
 public:
  void WireBegins(TimePoint now) { Move(now), ++wire_; }
  void WireEnds(TimePoint now) { Move(now), --wire_; }
  void CodecBegins(TimePoint now) { Move(now), ++codec_; }
  void CodecEnds(TimePoint now) { Move(now), --codec_; }

  [[nodiscard]] double wire_seconds() const { return wire_seconds_; }
  [[nodiscard]] double codec_seconds() const { return codec_seconds_; }
  /// Codec time that the wire hides.
  [[nodiscard]] double hidden_seconds() const { return hidden_seconds_; }
  /// From the first begin to the last event.
  [[nodiscard]] double elapsed_seconds() const { return started_ ? Seconds(last_ - first_) : 0; }

 private:
  void Move(TimePoint now) {
    if (!started_) {
      started_ = true;
      first_ = last_ = now;
    }
    if (now <= last_) return;
    const double step = Seconds(now - last_);
    if (wire_ > 0) wire_seconds_ += step;
    if (codec_ > 0) codec_seconds_ += step;
    if (wire_ > 0 && codec_ > 0) hidden_seconds_ += step;
    last_ = now;
  }

  int32_t wire_ = 0;
  int32_t codec_ = 0;
  bool started_ = false;
  TimePoint first_{};
  TimePoint last_{};
  double wire_seconds_ = 0;
  double codec_seconds_ = 0;
  double hidden_seconds_ = 0;
};

}  // namespace cinch::transfer
