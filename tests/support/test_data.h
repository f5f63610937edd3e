// SPDX-License-Identifier: Apache-2.0
/// @file test_data.h
/// Small seeded inputs for codec tests. The generators of src/tensors make whole tensors; these
/// make bytes that reach every branch of a block codec.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cinch/codec.h"
#include "format/dtype.h"

namespace cinch::test {

inline constexpr cinch_dtype kAllDtypes[] = {
    CINCH_DTYPE_BYTES,        CINCH_DTYPE_AUTO,         CINCH_DTYPE_BF16,
    CINCH_DTYPE_FP16,         CINCH_DTYPE_FP32,         CINCH_DTYPE_FP64,
    CINCH_DTYPE_FP8_E4M3FN,   CINCH_DTYPE_FP8_E4M3FNUZ, CINCH_DTYPE_FP8_E5M2,
    CINCH_DTYPE_FP8_E5M2FNUZ, CINCH_DTYPE_INT8,         CINCH_DTYPE_UINT8,
    CINCH_DTYPE_INT16,        CINCH_DTYPE_UINT16,       CINCH_DTYPE_INT32,
    CINCH_DTYPE_UINT32,       CINCH_DTYPE_INT64,        CINCH_DTYPE_UINT64};

/// Kinds of content, each aimed at something in the format.
enum class DataKind {
  kGaussian,     ///< The common case: all cascade levels in use.
  kRandom,       ///< Stored blocks.
  kZeros,        ///< Constant blocks.
  kOneExponent,  ///< level0_bits 0.
  kSpiky,        ///< level0_bits 1.
  kWide,         ///< level0_bits 3.
  kZeroPlanes,   ///< Low residue bytes are zero.
  kFarOutliers,  ///< Raw symbols outside the codebook's range.
  kSparse,       ///< Half exact zeroes: sparse blocks.
  kFewZeros,     ///< A sixth exact zeroes, too few for sparse blocks: the fourth shape.
  kScattered,    ///< One of a hundred elements is not zero: most groups are empty.
  kMixed,        ///< Another dtype every few blocks.
};
inline constexpr DataKind kAllDataKinds[] = {
    DataKind::kGaussian, DataKind::kRandom,   DataKind::kZeros,      DataKind::kOneExponent,
    DataKind::kSpiky,    DataKind::kWide,     DataKind::kZeroPlanes, DataKind::kFarOutliers,
    DataKind::kSparse,   DataKind::kFewZeros, DataKind::kScattered,  DataKind::kMixed};

inline std::string NameOf(DataKind kind) {
  constexpr const char* kNames[] = {"gaussian", "random",    "zeros",       "one_exponent",
                                    "spiky",    "wide",      "zero_planes", "far_outliers",
                                    "sparse",   "few_zeros", "scattered",   "mixed"};
  return kNames[static_cast<int>(kind)];
}

namespace internal {

inline double Draw(DataKind kind, std::mt19937_64& random) {
  std::normal_distribution<double> normal(0, 0.02);
  const auto uniform = [&](uint64_t below) { return random() % below; };
  switch (kind) {
    case DataKind::kOneExponent:
      return (1.0 + static_cast<double>(uniform(1000)) / 1024) * (uniform(2) != 0 ? 1 : -1);
    case DataKind::kSpiky:
      return uniform(20) == 0 ? normal(random) : 1.0 + static_cast<double>(uniform(100)) / 128;
    case DataKind::kWide:
      return std::ldexp(1.0 + static_cast<double>(uniform(1000)) / 1024,
                        static_cast<int>(uniform(8)) - 6);
    case DataKind::kSparse:
      return uniform(2) == 0 ? 0.0 : normal(random);
    case DataKind::kFewZeros:
      return uniform(6) == 0 ? 0.0 : normal(random);
    case DataKind::kScattered:
      return uniform(100) == 0 ? normal(random) : 0.0;
    case DataKind::kFarOutliers:
      return uniform(50) == 0 ? std::ldexp(normal(random), static_cast<int>(uniform(200)) - 100)
                              : normal(random);
    default:
      return normal(random);
  }
}

/// A double as an element of a float dtype, by truncation: rounding is not what is tested.
inline uint64_t ToElement(cinch_dtype dtype, double value) {
  const auto as_float = static_cast<float>(value);
  uint32_t single;
  std::memcpy(&single, &as_float, sizeof single);
  const uint64_t sign = single >> 31;
  const int exponent = static_cast<int>((single >> 23) & 0xFF) - 127;
  const auto narrow = [&](int bias, int exponent_bits, int mantissa_bits) {
    const int largest = (1 << exponent_bits) - 1;
    const int biased = exponent + bias < 0         ? 0
                       : exponent + bias > largest ? largest
                                                   : exponent + bias;
    const uint64_t mantissa = (single & 0x7FFFFF) >> (23 - mantissa_bits);
    return (((sign << exponent_bits) | static_cast<uint64_t>(biased)) << mantissa_bits) | mantissa;
  };
  switch (dtype) {
    case CINCH_DTYPE_BF16:
    case CINCH_DTYPE_AUTO:
      return single >> 16;
    case CINCH_DTYPE_FP16:
      return narrow(15, 5, 10);
    case CINCH_DTYPE_FP8_E4M3FN:
    case CINCH_DTYPE_FP8_E4M3FNUZ:
      return narrow(12, 4, 3);
    case CINCH_DTYPE_FP8_E5M2:
    case CINCH_DTYPE_FP8_E5M2FNUZ:
      return narrow(15, 5, 2);
    case CINCH_DTYPE_FP64: {
      uint64_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      return bits;
    }
    case CINCH_DTYPE_FP32:
      return single;
    default:
      return static_cast<uint64_t>(static_cast<int64_t>(value * 3000));
  }
}

}  // namespace internal

/// `size_bytes` bytes of a kind of content as elements of `dtype`.
inline std::vector<uint8_t> MakeData(DataKind kind, cinch_dtype dtype, size_t size_bytes,
                                     uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint8_t> bytes;
  if (kind == DataKind::kZeros) return std::vector<uint8_t>(size_bytes, 0);
  if (kind == DataKind::kMixed) {
    constexpr cinch_dtype kParts[] = {CINCH_DTYPE_BF16, CINCH_DTYPE_FP32, CINCH_DTYPE_FP16,
                                      CINCH_DTYPE_INT64, CINCH_DTYPE_FP8_E4M3FN};
    while (bytes.size() < size_bytes) {
      const size_t part_bytes = 2 + random() % 100000;
      const auto part_kind = random() % 4 == 0 ? DataKind::kRandom : DataKind::kGaussian;
      const auto part = MakeData(part_kind, kParts[random() % 5], part_bytes, random());
      bytes.insert(bytes.end(), part.begin(), part.end());
    }
  }
  const size_t element_bytes =
      dtype == CINCH_DTYPE_AUTO ? 2 : static_cast<size_t>(cinch_dtype_size(dtype));
  while (bytes.size() < size_bytes) {
    uint64_t element = kind == DataKind::kRandom
                           ? random()
                           : internal::ToElement(dtype, internal::Draw(kind, random));
    if (kind == DataKind::kZeroPlanes && element_bytes > 2) {
      element &= ~uint64_t{0} << (8 * (element_bytes / 2));
    }
    for (size_t i = 0; i < element_bytes; ++i) {
      bytes.push_back(static_cast<uint8_t>(element >> (8 * i)));
    }
  }
  bytes.resize(size_bytes);
  return bytes;
}

/// `base` with `percent` % of its elements of `element_bytes` bytes changed in their lower half.
inline std::vector<uint8_t> ChangeSome(std::vector<uint8_t> base, size_t element_bytes,
                                       uint64_t percent, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (size_t at = 0; at + element_bytes <= base.size(); at += element_bytes) {
    if (random() % 100 >= percent) continue;
    for (size_t i = 0; i < (element_bytes + 1) / 2; ++i) {
      base[at + i] = static_cast<uint8_t>(base[at + i] ^ random());
    }
  }
  return base;
}

}  // namespace cinch::test
