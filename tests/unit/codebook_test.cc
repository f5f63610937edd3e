// SPDX-License-Identifier: Apache-2.0
#include "codec/plan/codebook.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <utility>

#include "codec/plan/dtype_choice.h"

namespace cinch::codec {
namespace {

SymbolCounts Counts(std::initializer_list<std::pair<uint32_t, uint32_t>> pairs) {
  SymbolCounts counts;
  for (const auto& [symbol, count] : pairs) {
    for (uint32_t i = 0; i < count; ++i) counts.Add(symbol);
  }
  return counts;
}

TEST(Codebook, TakesTheFrequentWindowsInOrder) {
  // 118..120 first; then, of what is left, 116 117 121; then 113..115.
  const auto choice = ChooseCodebook(Counts({{120, 30}, {119, 28}, {118, 18}, {117, 10}, {121, 5},
                                             {116, 5}, {115, 2}, {114, 1}, {90, 1}}),
                                     8, true);
  EXPECT_EQ(choice.level0_bits, 2U);
  EXPECT_EQ(choice.codebook.level0[0], 118);
  EXPECT_EQ(choice.codebook.level0[2], 120);
  EXPECT_EQ(choice.codebook.level0[3], 0) << "unused entries are reserved";
  EXPECT_EQ(choice.codebook.coded[0][0], 116);
  EXPECT_EQ(choice.codebook.coded[0][1], 117);
  EXPECT_EQ(choice.codebook.coded[0][2], 121);
  EXPECT_EQ(choice.codebook.coded[1][0], 113);
  EXPECT_EQ(choice.window_start[0], 118U);
  EXPECT_EQ(choice.window_start[1], 116U);
  EXPECT_EQ(choice.window_start[2], 113U);
  // 2 bits each; 24 escapes, 4 of level 1, 1 of level 2, which level 3 cannot take (90 is far).
  EXPECT_EQ(choice.cost_bits, 2U * 100 + 2 * (24 + 4 + 1) + 8 * 1);
}

TEST(Codebook, OneSymbolIsRecognisedOnlyWhenAllowed) {
  EXPECT_TRUE(ChooseCodebook(Counts({{7, 5}}), 8, true).single_symbol);
  const auto choice = ChooseCodebook(Counts({{7, 5}}), 8, false);
  EXPECT_FALSE(choice.single_symbol);
  EXPECT_EQ(choice.level0_bits, 1U);
  EXPECT_EQ(choice.cost_bits, 5U);
}

TEST(Codebook, WideDistributionsGetThreeBits) {
  SymbolCounts counts;
  for (uint32_t symbol = 10; symbol < 17; ++symbol) counts.count[symbol] = 100;
  counts.total = 700;
  EXPECT_EQ(ChooseCodebook(counts, 8, true).level0_bits, 3U);
}

TEST(Codebook, WindowsStayInsideSmallAlphabets) {
  for (const uint32_t symbol_bits : {4U, 5U}) {
    for (uint32_t symbol = 0; symbol < (1U << symbol_bits); ++symbol) {
      const auto choice = ChooseCodebook(Counts({{symbol, 3}, {0, 1}}), symbol_bits, false);
      for (const uint8_t entry : choice.codebook.level0) EXPECT_LT(entry, 1U << symbol_bits);
      for (const auto& level : choice.codebook.coded) {
        for (const uint8_t entry : level) EXPECT_LT(entry, 1U << symbol_bits);
      }
    }
  }
}

TEST(Codebook, TheRangeReachesBothEndsOfTheAlphabet) {
  EXPECT_EQ(ChooseCodebook(Counts({{255, 3}, {254, 1}}), 8, false).codebook.level0[0], 255);
  EXPECT_EQ(ChooseCodebook(Counts({{0, 3}, {1, 1}}), 8, false).codebook.level0[0], 0);
}

TEST(ZeroPlanes, NameOnlyWholeBytePlanes) {
  EXPECT_EQ(ZeroPlanesOf(0x800000, CINCH_DTYPE_FP32), 0b011U);
  EXPECT_EQ(ZeroPlanesOf(0, CINCH_DTYPE_FP16), 0b1U) << "the three bits above have no byte plane";
  EXPECT_EQ(ZeroPlanesOf(0, CINCH_DTYPE_FP8_E4M3FN), 0U);
  EXPECT_EQ(ZeroPlanesOf(0, CINCH_DTYPE_FP64), 0b1111111U);
}

TEST(WorthCoding, AsksForOneSixtyFourth) {
  EXPECT_FALSE(WorthCoding(CINCH_DTYPE_BF16, 7750, 1000, 0));
  EXPECT_TRUE(WorthCoding(CINCH_DTYPE_BF16, 7749, 1000, 0));
}

}  // namespace
}  // namespace cinch::codec
