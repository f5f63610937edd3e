// SPDX-License-Identifier: Apache-2.0
#include "codec/plan/codebook.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <set>
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
  const auto choice = ChooseCodebook(Counts({{120, 30},
                                             {119, 28},
                                             {118, 18},
                                             {117, 10},
                                             {121, 5},
                                             {116, 5},
                                             {115, 2},
                                             {114, 1},
                                             {90, 1}}),
                                     8, true);
  EXPECT_EQ(choice.level0_bits, 2U);
  EXPECT_EQ(choice.codebook.window_start[0], 118);
  EXPECT_EQ(choice.codebook.window_start[1], 116);
  EXPECT_EQ(choice.codebook.window_start[2], 113);
  const auto symbol = [&](uint32_t level, uint32_t code) {
    return format::SymbolOf(choice.codebook, choice.level0_bits, level, code);
  };
  EXPECT_EQ(symbol(0, 2), 120U);
  EXPECT_EQ(symbol(1, 0), 116U);
  EXPECT_EQ(symbol(1, 2), 121U);
  EXPECT_EQ(symbol(2, 2), 115U);
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

TEST(Codebook, ManyZeroesGetLevelZeroToThemselves) {
  const auto choice = ChooseCodebook(
      Counts({{0, 50}, {118, 9}, {119, 14}, {120, 15}, {117, 8}, {121, 4}}), 8, true);
  EXPECT_EQ(choice.level0_bits, 1U);
  EXPECT_EQ(format::SymbolOf(choice.codebook, 1, 0, 0), 0U);
  EXPECT_EQ(format::SymbolOf(choice.codebook, 1, 1, 0), 118U);
  EXPECT_EQ(choice.cost_bits, 100U + 2 * 50 + 2 * 12);
}

TEST(Codebook, FewZeroesDoNotMoveTheRange) {
  const auto choice = ChooseCodebook(Counts({{0, 9}, {118, 4}, {119, 4}, {120, 5}}), 8, true);
  EXPECT_NE(format::SymbolOf(choice.codebook, choice.level0_bits, 1, 0), 0U);
  EXPECT_EQ(format::SymbolOf(choice.codebook, choice.level0_bits, 1, 0), 118U);
}

TEST(Codebook, WideDistributionsGetThreeBits) {
  SymbolCounts counts;
  for (uint32_t symbol = 10; symbol < 17; ++symbol) counts.count[symbol] = 100;
  counts.total = 700;
  EXPECT_EQ(ChooseCodebook(counts, 8, true).level0_bits, 3U);
}

TEST(Codebook, WindowsStayInsideTheAlphabetAndNameEachSymbolOnce) {
  for (const uint32_t symbol_bits : {4U, 5U, 8U}) {
    for (uint32_t symbol = 0; symbol < (1U << symbol_bits); ++symbol) {
      const auto choice = ChooseCodebook(Counts({{symbol, 3}, {0, 1}}), symbol_bits, false);
      ASSERT_TRUE(format::IsValidCodebook(choice.codebook, choice.level0_bits, symbol_bits));
      std::set<uint32_t> named;
      for (uint32_t level = 0; level < format::kLevels; ++level) {
        for (uint32_t code = 0; code < format::WindowWidth(choice.level0_bits, level); ++code) {
          const uint32_t name = format::SymbolOf(choice.codebook, choice.level0_bits, level, code);
          EXPECT_LT(name, 1U << symbol_bits);
          EXPECT_TRUE(named.insert(name).second);
        }
      }
    }
  }
}

TEST(Codebook, WindowsThatLeaveTheAlphabetAreInvalid) {
  EXPECT_TRUE(format::IsValidCodebook({{13, 10, 7, 4}}, 2, 4));
  EXPECT_FALSE(format::IsValidCodebook({{14, 10, 7, 4}}, 2, 4));
  EXPECT_FALSE(format::IsValidCodebook({{13, 11, 7, 4}}, 2, 4));
  EXPECT_FALSE(format::IsValidCodebook({{13, 10, 7, 5}}, 2, 4));
  EXPECT_TRUE(format::IsValidCodebook({{15, 0, 0, 0}}, 0, 4));
  EXPECT_FALSE(format::IsValidCodebook({{15, 0, 1, 0}}, 0, 4)) << "reserved";
}

TEST(Codebook, TheRangeReachesBothEndsOfTheAlphabet) {
  const auto top = ChooseCodebook(Counts({{255, 3}, {254, 1}}), 8, false);
  EXPECT_EQ(format::SymbolOf(top.codebook, top.level0_bits, 0, 0), 255U);
  const auto bottom = ChooseCodebook(Counts({{0, 3}, {1, 1}}), 8, false);
  EXPECT_EQ(format::SymbolOf(bottom.codebook, bottom.level0_bits, 0, 0), 0U);
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
