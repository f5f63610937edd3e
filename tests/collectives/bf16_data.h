// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <random>
#include <vector>

#include "collectives/float_math.h"

namespace cinch::testing {

using Bf16 = std::vector<uint16_t>;

/// What a rank sends in a round: weights, or noise that nothing compresses.
inline Bf16 MakeData(int rank, int round, size_t elements, bool noise = false) {
  std::mt19937 random(static_cast<uint32_t>(rank * 7919 + round + 1));
  std::normal_distribution<float> normal(0, 0.02F);
  Bf16 data(elements);
  for (uint16_t& value : data) {
    value = noise ? static_cast<uint16_t>(random()) : ToBf16(normal(random));
  }
  return data;
}

inline Bf16 Concatenate(const Bf16& a, const Bf16& b) {
  Bf16 both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

inline Bf16 Sum(const std::vector<Bf16>& parts, float scale = 1) {
  std::vector<const void*> sources;
  sources.reserve(parts.size());
  for (const Bf16& part : parts) sources.push_back(part.data());
  Bf16 sum(parts.front().size());
  ReduceInOrder(sources.data(), sources.size(), sum.data(), sum.size(), collectives::kNcclBfloat16,
                scale);
  return sum;
}

}  // namespace cinch::testing
