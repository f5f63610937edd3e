// SPDX-License-Identifier: Apache-2.0
#include "policy/ratio_memory.h"

#include <algorithm>
#include <bit>

namespace cinch::policy {

RatioKey MakeRatioKey(cinch_dtype dtype, uint64_t bytes, std::string_view name) {
  return {dtype, static_cast<uint32_t>(std::bit_width(bytes)), std::string(name)};
}

std::optional<double> RatioMemory::Predict(const RatioKey& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  Entry& entry = found->second;
  entry.last_used = ++clock_;
  if (++entry.uses_since_learned > kTrustedUses) return std::nullopt;
  return entry.kept_fraction;
}

void RatioMemory::Learn(const RatioKey& key, uint64_t original_bytes, uint64_t kept_bytes) {
  if (original_bytes == 0) return;
  const double sample = static_cast<double>(kept_bytes) / static_cast<double>(original_bytes);
  auto found = entries_.find(key);
  if (found == entries_.end()) {
    MakeRoom();
    found = entries_.emplace(key, Entry{sample, 0, 0}).first;
  }
  // A quarter of the new value: one odd segment does not turn the decision, four like it do.
  constexpr double kNewWeight = 0.25;
  Entry& entry = found->second;
  entry.kept_fraction += kNewWeight * (sample - entry.kept_fraction);
  entry.uses_since_learned = 0;
  entry.last_used = ++clock_;
}

void RatioMemory::MakeRoom() {
  if (entries_.size() < kMaxKeys) return;
  const auto oldest = std::ranges::min_element(
      entries_, {}, [](const auto& item) { return item.second.last_used; });
  entries_.erase(oldest);
}

}  // namespace cinch::policy
