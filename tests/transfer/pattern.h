// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace cinch::transfer_test {

/// bf16 values with few different exponents and random signs and mantissas: compressible like
/// weights, and different for every seed. A pure function of seed and size, so that two processes
/// can agree on it.
inline std::vector<uint8_t> Pattern(uint64_t seed, size_t bytes) {
  std::vector<uint8_t> data(bytes);
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    // Four values: random signs and mantissas, exponents 118 to 121.
    const uint64_t values =
        (state & 0x807F807F807F807Fu) | 0x3B003B003B003B00u | ((state >> 9) & 0x0180018001800180u);
    std::memcpy(&data[i], &values, std::min(sizeof(values), bytes - i));
  }
  return data;
}

/// Changes about `fraction` of the 16-bit words in their low `bits`.
inline std::vector<uint8_t> Changed(std::vector<uint8_t> data, double fraction, int bits,
                                    uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> chance(0, 1);
  for (size_t i = 0; i + 1 < data.size(); i += 2) {
    if (chance(random) >= fraction) continue;
    uint16_t word = 0;
    std::memcpy(&word, &data[i], 2);
    word = static_cast<uint16_t>(word ^ (1 + random() % ((uint64_t{1} << bits) - 1)));
    std::memcpy(&data[i], &word, 2);
  }
  return data;
}

}  // namespace cinch::transfer_test
