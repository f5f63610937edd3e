// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cinch {
namespace {

using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

std::string LoggedAt(LogLevel in_force, LogLevel level) {
  SetLogLevel(in_force);
  CaptureStderr();
  Log(level, "value {} of {}", 7, "nine");
  return GetCapturedStderr();
}

TEST(Log, LetsThroughItsLevelAndWhatIsGraver) {
  constexpr LogLevel kLevels[] = {LogLevel::kError, LogLevel::kWarn, LogLevel::kInfo,
                                  LogLevel::kDebug};
  for (const LogLevel in_force : kLevels) {
    for (const LogLevel level : kLevels) {
      const std::string text = LoggedAt(in_force, level);
      if (level <= in_force) {
        EXPECT_THAT(text, HasSubstr("value 7 of nine\n"));
        EXPECT_THAT(text, HasSubstr("cinch["));
      } else {
        EXPECT_EQ(text, "");
      }
    }
  }
}

TEST(Log, OffIsSilent) { EXPECT_EQ(LoggedAt(LogLevel::kOff, LogLevel::kError), ""); }

TEST(Log, BracesInAMessageAreNotFormatted) {
  CaptureStderr();
  WriteLog(LogLevel::kWarn, "a {} b %s");
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("a {} b %s\n"));
}

}  // namespace
}  // namespace cinch
