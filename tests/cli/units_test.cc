// SPDX-License-Identifier: Apache-2.0
#include "units.h"

#include <gmock/gmock.h>

#include "file_hash.h"
#include "outcome.h"
#include "table.h"

namespace cinch::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(UnitsTest, FormatsBytesInDecimalUnits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(999), "999 B");
  EXPECT_EQ(FormatBytes(1000), "1.0 kB");
  EXPECT_EQ(FormatBytes(999'960), "1.0 MB");
  EXPECT_EQ(FormatBytes(268'435'456), "268.4 MB");
  EXPECT_EQ(FormatBytes(~uint64_t{0}), "18.4 EB");
}

TEST(UnitsTest, FormatsTimes) {
  EXPECT_EQ(FormatSeconds(1.234), "1.23 s");
  EXPECT_EQ(FormatSeconds(0.0123), "12.3 ms");
  EXPECT_EQ(FormatSeconds(0.0000123), "12.3 us");
  EXPECT_EQ(FormatRemaining(59.4), "59 s");
  EXPECT_EQ(FormatRemaining(125), "2 min 05 s");
  EXPECT_EQ(FormatRemaining(3725), "1 h 02 min");
  EXPECT_EQ(FormatRemaining(-1), "0 s");
}

TEST(UnitsTest, ParsesSizesWithBinarySuffixes) {
  EXPECT_EQ(ParseSize("1"), 1U);
  EXPECT_EQ(ParseSize("64K"), 65536U);
  EXPECT_EQ(ParseSize("2MiB"), uint64_t{2} << 20);
  EXPECT_EQ(ParseSize("3G"), uint64_t{3} << 30);
  EXPECT_EQ(ParseSize("16777215T"), uint64_t{16777215} << 40);
}

TEST(UnitsTest, RefusesWhatIsNoSize) {
  for (const char* text :
       {"", "0", "-1", "x", "1X", "1 K", "1KB", "K", "16777216T", "18446744073709551616", "1.5M"}) {
    EXPECT_EQ(ParseSize(text), std::nullopt) << text;
  }
}

TEST(UnitsTest, ParsesLists) {
  EXPECT_THAT(ParseSizes("8,64K"), ElementsAre(8, 65536));
  EXPECT_THAT(ParseSizes("8,"), IsEmpty());
  EXPECT_THAT(ParseSizes(""), IsEmpty());
}

TEST(UnitsTest, MedianOfOddEvenAndNone) {
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(Median({}), 0);
}

TEST(UnitsTest, RatesWithoutTimeAreZero) {
  EXPECT_EQ(GigabytesPerSecond(1'000'000'000, 0.5), 2);
  EXPECT_EQ(GigabitsPerSecond(1'000'000'000, 0.5), 16);
  EXPECT_EQ(GigabytesPerSecond(1, 0), 0);
}

TEST(TableTest, AlignsAndHidesControlCharacters) {
  Table table({"name", "n"});
  table.Add({"a\x1b[2J", "1"});
  table.AddRule();
  table.Add({"total", "100"});
  EXPECT_EQ(table.Format(), "name     n\n----------\na?[2J    1\n----------\ntotal  100\n");
}

TEST(HashTest, HexadecimalRoundTripAndKnownDigest) {
  FileHash hash;
  FileDigest digest{};
  // The digest of nothing, as xxhsum -H2 prints it.
  EXPECT_EQ(ToHex(hash.Digest()), "99aa06d3014798d86001c324468d497f");
  ASSERT_TRUE(FromHex("99aa06d3014798d86001c324468d497f", &digest));
  EXPECT_EQ(digest, hash.Digest());
  EXPECT_FALSE(FromHex("99aa06d3014798d86001c324468d497", &digest));
  EXPECT_FALSE(FromHex("99aa06d3014798d86001c324468d497G", &digest));
}

TEST(OutcomeTest, FamiliesOfStatusesHaveTheirExitCodes) {
  EXPECT_EQ(ExitCodeOf(CINCH_OK), ExitCode::kOk);
  EXPECT_EQ(ExitCodeOf(CINCH_ERROR_INVALID_ARGUMENT), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeOf(CINCH_ERROR_KEY_REQUIRED), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeOf(CINCH_ERROR_FRAME_TRUNCATED), ExitCode::kBadData);
  EXPECT_EQ(ExitCodeOf(CINCH_ERROR_FRAME_BASE_MISSING), ExitCode::kBadData);
  EXPECT_EQ(ExitCodeOf(CINCH_ERROR_FILE_FORMAT), ExitCode::kBadData);
  EXPECT_EQ(ExitCodeOf(CINCH_ERROR_TIMEOUT), ExitCode::kPeer);
  EXPECT_EQ(ExitCodeOf(CINCH_ERROR_TRANSPORT), ExitCode::kPeer);
  EXPECT_EQ(ExitCodeOf(CINCH_ERROR_NO_SPACE), ExitCode::kFailed);
  EXPECT_EQ(ExitCodeOf(CINCH_ERROR_UNSUPPORTED), ExitCode::kUnsupported);
  EXPECT_EQ(FromStatus(CINCH_ERROR_NO_SPACE, "").message, cinch_status_text(CINCH_ERROR_NO_SPACE));
}

}  // namespace
}  // namespace cinch::cli
