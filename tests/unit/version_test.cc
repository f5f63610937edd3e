// SPDX-License-Identifier: Apache-2.0
#include "cinch/version.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace {

TEST(Version, TheLibraryAndItsHeadersAgreeWithTheVersionFile) {
  std::ifstream file(CINCH_SOURCE_DIR "/VERSION");
  std::string expected;
  ASSERT_TRUE(std::getline(file, expected));
  EXPECT_EQ(expected, CINCH_VERSION_STRING);
  EXPECT_EQ(expected, cinch_version_string());
  EXPECT_EQ(cinch_version_number(), CINCH_VERSION_NUMBER);
  EXPECT_EQ(expected, std::to_string(CINCH_VERSION_MAJOR) + "." +
                          std::to_string(CINCH_VERSION_MINOR) + "." +
                          std::to_string(CINCH_VERSION_PATCH));
}

}  // namespace
