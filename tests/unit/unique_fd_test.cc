// SPDX-License-Identifier: Apache-2.0
#include "base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace cinch {
namespace {

int OpenSomething() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }
bool IsOpen(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

TEST(UniqueFd, ClosesWhatItOwns) {
  int number = -1;
  {
    const UniqueFd fd(OpenSomething());
    number = fd.get();
    ASSERT_TRUE(fd.valid());
    ASSERT_TRUE(IsOpen(number));
  }
  EXPECT_FALSE(IsOpen(number));
}

TEST(UniqueFd, MovesLeaveOneOwner) {
  UniqueFd first(OpenSomething());
  UniqueFd second(OpenSomething());
  const int first_number = first.get();
  const int second_number = second.get();
  second = std::move(first);
  EXPECT_FALSE(IsOpen(second_number));
  EXPECT_TRUE(IsOpen(first_number));
  EXPECT_EQ(second.get(), first_number);
  UniqueFd third(std::move(second));
  EXPECT_EQ(third.get(), first_number);
}

TEST(UniqueFd, ReleaseHandsOverAndResetCloses) {
  UniqueFd fd(OpenSomething());
  const int number = fd.release();
  EXPECT_FALSE(fd.valid());
  EXPECT_TRUE(IsOpen(number));
  fd.reset(number);
  fd.reset();
  EXPECT_FALSE(IsOpen(number));
}

}  // namespace
}  // namespace cinch
