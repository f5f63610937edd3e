// SPDX-License-Identifier: Apache-2.0
#include "cinch/status.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

namespace {

/// Lines such as "  CINCH_ERROR_BUSY = -6, ...". By hand: <regex> takes most of a minute to compile
/// under a sanitizer.
std::map<std::string, int> EnumeratorsOfTheHeader() {
  std::ifstream file(CINCH_SOURCE_DIR "/include/cinch/status.h");
  std::map<std::string, int> values;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::string equals;
    int value = 0;
    if (words >> name >> equals >> value && name.starts_with("CINCH_") && equals == "=") {
      values[name] = value;
    }
  }
  return values;
}

TEST(Status, EveryEnumeratorHasItsNameAndAText) {
  const auto values = EnumeratorsOfTheHeader();
  ASSERT_GT(values.size(), 30U);
  std::set<std::string> texts;
  for (const auto& [name, value] : values) {
    const auto status = static_cast<cinch_status>(value);
    EXPECT_EQ(cinch_status_name(status), name);
    EXPECT_STRNE(cinch_status_text(status), "unknown status") << name;
    EXPECT_TRUE(texts.insert(cinch_status_text(status)).second) << name << " shares its text";
  }
}

TEST(Status, NumbersArePinned) {
  EXPECT_EQ(CINCH_OK, 0);
  EXPECT_EQ(CINCH_IN_PROGRESS, 1);
  EXPECT_EQ(CINCH_ERROR_INVALID_ARGUMENT, -1);
  EXPECT_EQ(CINCH_ERROR_FRAME_TRUNCATED, -20);
  EXPECT_EQ(CINCH_ERROR_TIMEOUT, -40);
  EXPECT_EQ(CINCH_ERROR_OUT_OF_MEMORY, -60);
  EXPECT_EQ(CINCH_ERROR_DEVICE, -80);
}

TEST(Status, UnknownValuesAreNamedUnknown) {
  // Not 1000: the value has to be one that the enum's underlying range can hold.
  EXPECT_STREQ(cinch_status_name(static_cast<cinch_status>(-127)), "CINCH_UNKNOWN");
  EXPECT_STREQ(cinch_status_name(static_cast<cinch_status>(99)), "CINCH_UNKNOWN");
}

}  // namespace
