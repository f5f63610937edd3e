// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <gtest/gtest.h>

namespace cinch {
namespace {

TEST(Text, UnsignedNumbers) {
  EXPECT_EQ(ParseUnsigned("0"), 0U);
  EXPECT_EQ(ParseUnsigned("18446744073709551615"), UINT64_MAX);
  for (const char* bad : {"", "-1", "+1", " 1", "1 ", "1.5", "0x10", "18446744073709551616"}) {
    EXPECT_EQ(ParseUnsigned(bad), std::nullopt) << bad;
  }
}

TEST(Text, Numbers) {
  EXPECT_EQ(ParseNumber("2.5"), 2.5);
  EXPECT_EQ(ParseNumber("-1e3"), -1000.0);
  for (const char* bad : {"", "inf", "nan", "1e999", "1,5", "1.5s", " 1"}) {
    EXPECT_EQ(ParseNumber(bad), std::nullopt) << bad;
  }
}

TEST(Text, ByteCounts) {
  EXPECT_EQ(ParseBytes("0"), 0U);
  EXPECT_EQ(ParseBytes("4096"), 4096U);
  EXPECT_EQ(ParseBytes("64K"), 65536U);
  EXPECT_EQ(ParseBytes("3MiB"), 3U << 20);
  EXPECT_EQ(ParseBytes("1G"), 1U << 30);
  EXPECT_EQ(ParseBytes("16777215T"), uint64_t{16777215} << 40);
  for (const char* bad : {"", "K", "1k", "1KB", "1Ki", "1KiBs", "-1K", "1.5M", "16777216T"}) {
    EXPECT_EQ(ParseBytes(bad), std::nullopt) << bad;
  }
}

TEST(Text, EditDistances) {
  EXPECT_EQ(EditDistance("", ""), 0U);
  EXPECT_EQ(EditDistance("abc", ""), 3U);
  EXPECT_EQ(EditDistance("", "abc"), 3U);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3U);
  EXPECT_EQ(EditDistance("same", "same"), 0U);
}

}  // namespace
}  // namespace cinch
