// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

namespace cinch::transfer_test {

/// bf16 values with few different exponents and random signs and mantissas: compressible like
/// weights, and different for every seed. A pure function of seed and size, so that two processes
/// can agree on it.
inline std::vector<uint8_t> Pattern(uint64_t seed, size_t bytes) {
  std::vector<uint8_t> data(bytes);
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (size_t i = 0; i < bytes; i += sizeof(uint16_t)) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const auto exponent = static_cast<uint16_t>(118 + __builtin_popcount(state & 0x3F) / 2);
    const auto sign_mantissa = static_cast<uint16_t>((state >> 20) & 0x807F);
    const auto value = static_cast<uint16_t>(sign_mantissa | (exponent << 7));
    std::memcpy(&data[i], &value, std::min(sizeof(value), bytes - i));
  }
  return data;
}

}  // namespace cinch::transfer_test
