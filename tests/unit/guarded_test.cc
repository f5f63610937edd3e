// SPDX-License-Identifier: Apache-2.0
#include "base/guarded.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <new>
#include <stdexcept>
#include <system_error>

namespace cinch {
namespace {

TEST(Guarded, ReturnsWhatTheCallReturns) {
  EXPECT_EQ(Guarded([] { return CINCH_OK; }), CINCH_OK);
  EXPECT_EQ(Guarded([] { return CINCH_ERROR_BUSY; }), CINCH_ERROR_BUSY);
  bool called = false;
  Guarded([&] { called = true; });
  EXPECT_TRUE(called);
  EXPECT_EQ(GuardedOr(1, [] { return 2; }), 2);
}

TEST(Guarded, TurnsExceptionsIntoStatuses) {
  EXPECT_EQ(Guarded([]() -> Status { throw std::bad_alloc(); }), CINCH_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(Guarded([]() -> Status { throw std::bad_array_new_length(); }),
            CINCH_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(Guarded([]() -> Status { throw std::length_error("too long"); }), CINCH_ERROR_INTERNAL);
  EXPECT_EQ(Guarded([]() -> Status { throw std::system_error(EAGAIN, std::system_category()); }),
            CINCH_ERROR_INTERNAL);
  EXPECT_EQ(Guarded([]() -> Status { throw 7; }), CINCH_ERROR_INTERNAL);
}

TEST(Guarded, DropsExceptionsOfCallsWithoutResult) {
  Guarded([]() -> void { throw std::bad_alloc(); });
  Guarded([]() -> void { throw 7; });
}

TEST(Guarded, FallsBackToTheOtherValue) {
  EXPECT_EQ(GuardedOr(1, []() -> int { throw std::bad_alloc(); }), 1);
  EXPECT_EQ(GuardedOr(static_cast<const char*>(nullptr), []() -> const char* { throw 7; }),
            nullptr);
}

// An application's callback may end its thread under a call of ours.
TEST(Guarded, LetsThreadsEnd) {
  static bool unwound;
  unwound = false;
  struct Witness {
    ~Witness() { unwound = true; }
  };
  pthread_t thread{};
  ASSERT_EQ(pthread_create(
                &thread, nullptr,
                [](void*) -> void* {
                  const Witness witness;
                  (void)Guarded([]() -> Status { pthread_exit(&unwound); });
                  return nullptr;
                },
                nullptr),
            0);
  void* result = nullptr;
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, &unwound);
  EXPECT_TRUE(unwound);
}

}  // namespace
}  // namespace cinch
