// SPDX-License-Identifier: Apache-2.0
/// @file float_math.h
/// The documented reduction: fp32, in the order of the ranks, rounded once.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "collectives/nccl_api.h"

namespace cinch::testing {

inline float FromBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

inline uint16_t ToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

inline float Load(const void* memory, uint64_t index, int dtype) {
  if (dtype == collectives::kNcclFloat32) {
    float value = 0;
    std::memcpy(&value, static_cast<const uint8_t*>(memory) + 4 * index, 4);
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, static_cast<const uint8_t*>(memory) + 2 * index, 2);
  return FromBf16(bits);
}

inline void Store(void* memory, uint64_t index, int dtype, float value) {
  if (dtype == collectives::kNcclFloat32) {
    std::memcpy(static_cast<uint8_t*>(memory) + 4 * index, &value, 4);
    return;
  }
  const uint16_t bits = ToBf16(value);
  std::memcpy(static_cast<uint8_t*>(memory) + 2 * index, &bits, 2);
}

inline void ReduceInOrder(const void* const* sources, uint64_t source_count, void* output,
                          uint64_t elements, int dtype, float scale) {
  for (uint64_t i = 0; i < elements; ++i) {
    float sum = Load(sources[0], i, dtype);
    for (uint64_t s = 1; s < source_count; ++s) sum += Load(sources[s], i, dtype);
    Store(output, i, dtype, sum * scale);
  }
}

}  // namespace cinch::testing
