// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cinch::policy {

/// A moving average of a rate, in bytes a second, in which a sample counts by its bytes: the old
/// value keeps exp(-bytes / memory_bytes) of its weight.
class RateEstimator {
 public:
  explicit RateEstimator(uint64_t memory_bytes)
      : memory_bytes_(static_cast<double>(memory_bytes)) {}

  /// Starts from an assumption that counts like a sample of `weight_bytes`, so that a few odd first
  /// samples (cold caches, first use of memory) do not decide.
  void Assume(double bytes_per_second, uint64_t weight_bytes) {
    weight_ = static_cast<double>(weight_bytes);
    weighted_seconds_ = weight_ / bytes_per_second;
    sampled_ = false;
  }

  /// `bytes` took `seconds`. Samples without bytes or time are ignored.
  void Add(uint64_t bytes, double seconds);

  [[nodiscard]] bool known() const { return weight_ > 0; }
  /// Whether anything was added since the assumption.
  [[nodiscard]] bool sampled() const { return sampled_; }
  /// Zero when unknown.
  [[nodiscard]] double bytes_per_second() const;

 private:
  double memory_bytes_;
  double weight_ = 0;            // Decayed sum of bytes.
  double weighted_seconds_ = 0;  // Decayed sum of their seconds.
  bool sampled_ = false;
};

/// The goodput of a link as a sender sees it. Compressed segments can be held up by a codec, so
/// what they show is a lower bound; the estimate is the larger of the two averages, and is not
/// known before so many raw bytes went by that their hand-shakes no longer count.
class LinkEstimator {
 public:
  static constexpr uint64_t kMinRawBytes = uint64_t{512} << 10;

  void AddRaw(uint64_t bytes, double seconds) {
    raw_bytes_ += bytes;
    raw_.Add(bytes, seconds);
  }
  void AddCompressed(uint64_t bytes, double seconds) { compressed_.Add(bytes, seconds); }

  [[nodiscard]] bool known() const { return raw_.known() && raw_bytes_ >= kMinRawBytes; }
  /// Zero when unknown.
  [[nodiscard]] double bytes_per_second() const;

 private:
  static constexpr uint64_t kMemoryBytes = uint64_t{16} << 20;
  uint64_t raw_bytes_ = 0;
  RateEstimator raw_{kMemoryBytes};
  RateEstimator compressed_{kMemoryBytes};
};

}  // namespace cinch::policy
