// SPDX-License-Identifier: Apache-2.0
#include "base/deadline.h"

#include <gtest/gtest.h>

#include <limits>

namespace cinch {
namespace {

TEST(Deadline, NothingLeftOfZeroNegativeOrNaN) {
  for (const double seconds : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    const Deadline deadline = Deadline::After(seconds);
    EXPECT_TRUE(deadline.expired());
    EXPECT_EQ(deadline.remaining_seconds(), 0.0);
    EXPECT_EQ(deadline.remaining_milliseconds(), 0);
  }
}

TEST(Deadline, CountsDownFromWhatWasAsked) {
  const Deadline deadline = Deadline::After(1000);
  EXPECT_FALSE(deadline.expired());
  EXPECT_LE(deadline.remaining_seconds(), 1000.0);
  EXPECT_GT(deadline.remaining_seconds(), 500.0);
  EXPECT_LE(deadline.remaining_milliseconds(), 1000 * 1000);
  EXPECT_GT(deadline.remaining_milliseconds(), 500 * 1000);
}

TEST(Deadline, HugeWaitsAreBoundedAndDoNotOverflow) {
  const Deadline deadline = Deadline::After(std::numeric_limits<double>::infinity());
  EXPECT_FALSE(deadline.expired());
  EXPECT_LE(deadline.remaining_seconds(), Deadline::kMaxSeconds);
  EXPECT_EQ(deadline.remaining_milliseconds(), 24 * 3600 * 1000);
}

TEST(Deadline, TheEarlierOfTwo) {
  const Deadline soon = Deadline::After(1);
  const Deadline late = Deadline::After(100);
  EXPECT_EQ(Deadline::Earlier(soon, late).time_point(), soon.time_point());
  EXPECT_EQ(Deadline::Earlier(late, soon).time_point(), soon.time_point());
}

}  // namespace
}  // namespace cinch
