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

inline float FromFp16(uint16_t bits) {
  constexpr uint32_t kExponent = 0x7C00U << 13;
  uint32_t magnitude = (bits & 0x7FFFU) << 13;
  const uint32_t exponent = magnitude & kExponent;
  magnitude += 112U << 23;
  if (exponent == kExponent) magnitude += 112U << 23;
  if (exponent == 0) {
    // Subnormal: the mantissa is a fixed-point number.
    magnitude += 1U << 23;
    magnitude = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) -
                                        std::bit_cast<float>(uint32_t{113U << 23}));
  }
  return std::bit_cast<float>(magnitude | (uint32_t{bits} & 0x8000U) << 16);
}

/// To nearest, ties to even.
inline uint16_t ToFp16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000U;
  uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude >= 0x47800000U) {
    const uint32_t special = magnitude > 0x7F800000U ? 0x7E00U : 0x7C00U;
    return static_cast<uint16_t>(sign | special);
  }
  if (magnitude < 0x38800000U) {
    // The addition rounds at the place of a subnormal's last bit.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000U));
  }
  magnitude += 0xC8000FFFU + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | magnitude >> 13);
}

inline float Load(const void* memory, uint64_t index, int dtype) {
  if (dtype == collectives::kNcclFloat32) {
    float value = 0;
    std::memcpy(&value, static_cast<const uint8_t*>(memory) + 4 * index, 4);
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, static_cast<const uint8_t*>(memory) + 2 * index, 2);
  return dtype == collectives::kNcclFloat16 ? FromFp16(bits) : FromBf16(bits);
}

inline void Store(void* memory, uint64_t index, int dtype, float value) {
  if (dtype == collectives::kNcclFloat32) {
    std::memcpy(static_cast<uint8_t*>(memory) + 4 * index, &value, 4);
    return;
  }
  const uint16_t bits = dtype == collectives::kNcclFloat16 ? ToFp16(value) : ToBf16(value);
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
