// SPDX-License-Identifier: Apache-2.0
#include "tensors/entropy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tensors/generators.h"

namespace cinch::tensors {
namespace {

template <typename Word>
std::span<const std::byte> BytesOf(const std::vector<Word>& words) {
  return std::as_bytes(std::span(words));
}

TEST(EntropyBound, CountsExponentsOnly) {
  // bf16: four equally frequent exponents; signs and mantissas differ and do not count.
  const std::vector<uint16_t> four = {0x3f80, 0xbfff, 0x4001, 0x4080, 0x3f85, 0x4000,
                                      0xc0ff, 0x4100, 0x3f80, 0x4012, 0x4080, 0xc17f,
                                      0x4034, 0x4091, 0x4100, 0x4133};
  const EntropyBound bound = ComputeEntropyBound(CINCH_DTYPE_BF16, BytesOf(four));
  EXPECT_EQ(bound.elements, 16u);
  EXPECT_DOUBLE_EQ(bound.exponent_entropy_bits, 2);
  EXPECT_DOUBLE_EQ(bound.bits_per_element, 10);
  EXPECT_DOUBLE_EQ(bound.bound_fraction, 10.0 / 16);
}

TEST(EntropyBound, KnowsEveryFieldWidth) {
  struct Case {
    cinch_dtype dtype;
    int element_bits;
    int field_bits;
  };
  const Case cases[] = {
      {CINCH_DTYPE_BF16, 16, 8},      {CINCH_DTYPE_FP16, 16, 5},
      {CINCH_DTYPE_FP32, 32, 8},      {CINCH_DTYPE_FP64, 64, 11},
      {CINCH_DTYPE_FP8_E4M3FN, 8, 4}, {CINCH_DTYPE_FP8_E4M3FNUZ, 8, 4},
      {CINCH_DTYPE_FP8_E5M2, 8, 5},   {CINCH_DTYPE_FP8_E5M2FNUZ, 8, 5},
      {CINCH_DTYPE_INT8, 8, 8},       {CINCH_DTYPE_UINT16, 16, 8},
      {CINCH_DTYPE_INT32, 32, 8},     {CINCH_DTYPE_UINT64, 64, 8},
      {CINCH_DTYPE_BYTES, 8, 8},      {CINCH_DTYPE_AUTO, 8, 8},
  };
  for (const Case& item : cases) {
    // Constant data leave the other bits only; random bits leave everything.
    const std::vector<uint64_t> zeros(4096);
    const EntropyBound least = ComputeEntropyBound(item.dtype, BytesOf(zeros));
    EXPECT_EQ(least.exponent_entropy_bits, 0) << item.dtype;
    EXPECT_FALSE(std::signbit(least.exponent_entropy_bits));
    EXPECT_EQ(least.bits_per_element, item.element_bits - item.field_bits) << item.dtype;
    EXPECT_EQ(least.elements, 4096u * 64 / static_cast<unsigned>(item.element_bits));
    std::vector<std::byte> random(8 << 20);
    ASSERT_EQ(GenerateData({DataKind::kRandomBits, 0}, item.dtype, 1, 0, random), CINCH_OK);
    const EntropyBound most = ComputeEntropyBound(item.dtype, random);
    EXPECT_NEAR(most.exponent_entropy_bits, item.field_bits, 0.003) << item.dtype;
    EXPECT_NEAR(most.bound_fraction, 1, 0.001) << item.dtype;
  }
}

TEST(EntropyBound, GaussianWeightsInBf16KeepTwoThirds) {
  for (const double sigma : {1e-4, 0.02, 1.0, 3.0}) {
    std::vector<std::byte> data(8 << 20);
    ASSERT_EQ(GenerateData({DataKind::kGaussian, sigma}, CINCH_DTYPE_BF16, 5, 0, data), CINCH_OK);
    EXPECT_NEAR(ComputeEntropyBound(CINCH_DTYPE_BF16, data).bound_fraction, 0.659, 0.001) << sigma;
  }
}

TEST(EntropyBound, HandlesEmptyAndOddSizes) {
  EXPECT_EQ(ComputeEntropyBound(CINCH_DTYPE_BF16, {}).bound_fraction, 1);
  EXPECT_EQ(ComputeEntropyBound(CINCH_DTYPE_BF16, {}).elements, 0u);
  const std::vector<std::byte> one(1);
  EXPECT_EQ(ComputeEntropyBound(CINCH_DTYPE_FP32, one).bound_fraction, 1) << "only a tail";
  EXPECT_EQ(ComputeEntropyBound(CINCH_DTYPE_FP32, one).elements, 0u);
  const std::vector<std::byte> three(3);
  const EntropyBound bound = ComputeEntropyBound(CINCH_DTYPE_BF16, three);
  EXPECT_EQ(bound.elements, 1u);
  EXPECT_DOUBLE_EQ(bound.bound_fraction, 2.0 / 3) << "one byte of two, and the tail in full";
}

TEST(EntropyBound, ReadsUnalignedData) {
  std::vector<std::byte> data(4097);
  ASSERT_EQ(
      GenerateData({DataKind::kGaussian, 1}, CINCH_DTYPE_FP64, 1, 0, std::span(data).first(4096)),
      CINCH_OK);
  const EntropyBound aligned = ComputeEntropyBound(CINCH_DTYPE_FP64, std::span(data).first(4096));
  std::copy_backward(data.begin(), data.begin() + 4096, data.end());
  const EntropyBound shifted = ComputeEntropyBound(CINCH_DTYPE_FP64, std::span(data).subspan(1));
  EXPECT_EQ(aligned.exponent_entropy_bits, shifted.exponent_entropy_bits);
}

}  // namespace
}  // namespace cinch::tensors
