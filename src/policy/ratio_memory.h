// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "cinch/codec.h"

namespace cinch::policy {

/// What makes tensors alike: the dtype, the size to a power of two, and the caller's name.
struct RatioKey {
  cinch_dtype dtype = CINCH_DTYPE_AUTO;
  uint32_t size_class = 0;
  std::string name;

  friend bool operator<(const RatioKey& left, const RatioKey& right) {
    return std::tie(left.dtype, left.size_class, left.name) <
           std::tie(right.dtype, right.size_class, right.name);
  }
};

[[nodiscard]] RatioKey MakeRatioKey(cinch_dtype dtype, uint64_t bytes, std::string_view name);

/// Remembers how well like tensors compressed. Holds at most kMaxKeys; the one that was not used
/// for longest makes room.
class RatioMemory {
 public:
  static constexpr size_t kMaxKeys = 1024;
  /// After so many messages that did not refresh it, a memory is doubted: contents may change
  /// while raw sending, which measures nothing, goes on.
  static constexpr uint32_t kTrustedUses = 32;

  /// The expected kept fraction for one more message of this kind, or nothing when one must be
  /// sampled first.
  [[nodiscard]] std::optional<double> Predict(const RatioKey& key);

  /// `original_bytes` became `kept_bytes`.
  void Learn(const RatioKey& key, uint64_t original_bytes, uint64_t kept_bytes);

  [[nodiscard]] size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    double kept_fraction = 1;
    uint32_t uses_since_learned = 0;
    uint64_t last_used = 0;
  };

  void MakeRoom();

  std::map<RatioKey, Entry> entries_;
  uint64_t clock_ = 0;
};

}  // namespace cinch::policy
