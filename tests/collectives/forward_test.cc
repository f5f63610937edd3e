// SPDX-License-Identifier: Apache-2.0
// Every name of NCCL that the interposer has leads to the function of that name behind it, with all
// parameters, and back with what it returned.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collectives/forward_double.h"
#include "nccl/interposer/real_library.h"
#include "nccl/interposer/shim.h"

extern "C" {
#define INTERCEPT(name) \
  void nccl##name();    \
  void pnccl##name();
#define SETTLE(name) INTERCEPT(name)
#define SETTLE_ALL(name) SETTLE(name)
#define FORWARD(name) INTERCEPT(name)
#include "nccl/interposer/nccl_names.inc"
#undef INTERCEPT
#undef SETTLE
#undef SETTLE_ALL
#undef FORWARD
}

namespace cinch::testing {
namespace {

using Any = uint64_t (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, double, double,
                         double, double, double, double, double, double, uint64_t, uint64_t);

struct Entry {
  const char* name;
  Any function;
};

// What our trampolines have no opinion about: the p-names, and all that is not intercepted.
std::vector<Entry> ForwardedEntries() {
#define INTERCEPT(name) {"pnccl" #name, reinterpret_cast<Any>(&pnccl##name)},
#define SETTLE(name)                                  \
  {"nccl" #name, reinterpret_cast<Any>(&nccl##name)}, \
      {"pnccl" #name, reinterpret_cast<Any>(&pnccl##name)},
#define SETTLE_ALL(name) SETTLE(name)
#define FORWARD(name) SETTLE(name)
  return {
#include "nccl/interposer/nccl_names.inc"
  };
#undef INTERCEPT
#undef SETTLE
#undef SETTLE_ALL
#undef FORWARD
}

constexpr size_t kNoConfiguration = SIZE_MAX;

/// Those that we intercept, with the number of their parameters (nccl.h).
struct Intercepted {
  Entry entry;
  size_t parameters;
  size_t configuration = kNoConfiguration;  ///< Which of them is one.
};

#define TAKES(name, ...) \
  { {#name, reinterpret_cast<Any>(&name)}, __VA_ARGS__ }

std::vector<Intercepted> InterceptedEntries() {
  return {TAKES(ncclAllGather, 6),
          TAKES(ncclAllReduce, 7),
          TAKES(ncclAlltoAll, 6),
          TAKES(ncclBroadcast, 7),
          TAKES(ncclCommAbort, 1),
          TAKES(ncclCommDestroy, 1),
          TAKES(ncclCommFinalize, 1),
          TAKES(ncclCommGetAsyncError, 2),
          TAKES(ncclCommInitAll, 3),
          TAKES(ncclCommInitRankScalable, 6, 5),
          TAKES(ncclCommRevoke, 2),
          TAKES(ncclCommShrink, 6, 4),
          TAKES(ncclCommSplit, 5, 4),
          TAKES(ncclGather, 7),
          TAKES(ncclGroupEnd, 0),
          TAKES(ncclGroupSimulateEnd, 1),
          TAKES(ncclGroupStart, 0),
          TAKES(ncclRecv, 6),
          TAKES(ncclRedOpCreatePreMulSum, 5),
          TAKES(ncclRedOpDestroy, 2),
          TAKES(ncclReduce, 8),
          TAKES(ncclReduceScatter, 7),
          TAKES(ncclScatter, 7),
          TAKES(ncclSend, 6)};
}
#undef TAKES

class Forward : public ::testing::Test {
 protected:
  Forward() {
    nccl::SetRealLibraryPath(CINCH_FORWARD_DOUBLE);
    shim_ = std::make_unique<nccl::Shim>(nccl::TheRealLibrary().api, nullptr, nccl::ShimSettings{});
    nccl::Shim::InstallForTesting(shim_.get());
    using Last = const ForwardedCall* (*)();
    last_ = reinterpret_cast<Last>(nccl::FindRealFunction("forward_double_last"))();
  }
  Forward(const Forward&) = delete;
  Forward& operator=(const Forward&) = delete;
  ~Forward() override { nccl::Shim::InstallForTesting(nullptr); }

  [[nodiscard]] const ForwardedCall& last() const { return *last_; }

 private:
  std::unique_ptr<nccl::Shim> shim_;
  const ForwardedCall* last_ = nullptr;
};

TEST_F(Forward, AllParametersOfEveryNameThatIsNotIntercepted) {
  const std::vector<Entry> entries = ForwardedEntries();
  ASSERT_GT(entries.size(), 100U);
  // The first call of each looks the function up, the second does not.
  for (uint64_t round = 0; round < 2; ++round) {
    uint64_t calls = last().calls;
    for (const Entry& entry : entries) {
      const uint64_t base = ++calls << 32;
      const uint64_t result =
          entry.function(base + 1, base + 2, base + 3, base + 4, base + 5, base + 6, 0.5, 1.5, 2.5,
                         3.5, 4.5, 5.5, 6.5, 7.5, base + 7, base + 8);
      EXPECT_EQ(result, kForwardedResult) << entry.name;
      ASSERT_EQ(last().calls, calls) << entry.name;
      EXPECT_STREQ(last().name, entry.name);
      for (uint64_t i = 0; i < 6; ++i) EXPECT_EQ(last().integers[i], base + 1 + i) << entry.name;
      for (int i = 0; i < 8; ++i) EXPECT_EQ(last().doubles[i], i + 0.5) << entry.name;
      EXPECT_EQ(last().stack[0], base + 7) << entry.name;
      EXPECT_EQ(last().stack[1], base + 8) << entry.name;
    }
  }
}

// An error comes back, so nothing is kept of what these are given; communicators are unknown.
TEST_F(Forward, AllParametersOfInterceptedNamesOnCommunicatorsThatAreNotOurs) {
  for (const Intercepted& intercepted : InterceptedEntries()) {
    const char* name = intercepted.entry.name;
    const uint64_t calls = last().calls;
    uint64_t given[] = {11, 12, 13, 14, 15, 16, 17, 18};
    // None, as it would be looked at.
    if (intercepted.configuration != kNoConfiguration) given[intercepted.configuration] = 0;
    const uint64_t result =
        intercepted.entry.function(given[0], given[1], given[2], given[3], given[4], given[5], 0, 0,
                                   0, 0, 0, 0, 0, 0, given[6], given[7]);
    EXPECT_EQ(static_cast<int>(result), static_cast<int>(kForwardedResult)) << name;
    ASSERT_EQ(last().calls, calls + 1) << name;
    EXPECT_STREQ(last().name, name);
    for (size_t i = 0; i < intercepted.parameters; ++i) {
      const uint64_t arrived = i < 6 ? last().integers[i] : last().stack[i - 6];
      // As much of it as an enumeration has.
      EXPECT_EQ(static_cast<uint32_t>(arrived), given[i]) << name << " parameter " << i;
    }
  }
}

TEST_F(Forward, BcastIsABroadcastInPlace) {
  using Bcast = int (*)(void*, size_t, int, int, void*, void*);
  int buffer = 0;
  EXPECT_EQ(reinterpret_cast<Bcast>(&ncclBcast)(&buffer, 5, 7, 3, &buffer, nullptr),
            static_cast<int>(kForwardedResult));
  EXPECT_STREQ(last().name, "ncclBroadcast");
  EXPECT_EQ(last().integers[0], reinterpret_cast<uint64_t>(&buffer));
  EXPECT_EQ(last().integers[1], reinterpret_cast<uint64_t>(&buffer));
  EXPECT_EQ(last().integers[2], 5U);
  EXPECT_EQ(static_cast<int>(last().integers[3]), 7);
  EXPECT_EQ(static_cast<int>(last().integers[4]), 3);
}

// The identifier travels by value, on the stack.
TEST_F(Forward, IdentifiersByValue) {
  struct UniqueId {
    uint64_t words[16];
  };
  void* comm = nullptr;
  const UniqueId id = {{21, 22}};
  using Init = int (*)(void**, int, UniqueId, int);
  EXPECT_EQ(reinterpret_cast<Init>(&ncclCommInitRank)(&comm, 4, id, 3),
            static_cast<int>(kForwardedResult));
  EXPECT_STREQ(last().name, "ncclCommInitRank");
  EXPECT_EQ(last().integers[0], reinterpret_cast<uint64_t>(&comm));
  EXPECT_EQ(static_cast<int>(last().integers[1]), 4);
  EXPECT_EQ(static_cast<int>(last().integers[2]), 3);
  EXPECT_EQ(last().stack[0], 21U);
  EXPECT_EQ(last().stack[1], 22U);
  using InitConfig = int (*)(void**, int, UniqueId, int, void*);
  EXPECT_EQ(reinterpret_cast<InitConfig>(&ncclCommInitRankConfig)(&comm, 5, id, 2, nullptr),
            static_cast<int>(kForwardedResult));
  EXPECT_STREQ(last().name, "ncclCommInitRankConfig");
  EXPECT_EQ(static_cast<int>(last().integers[1]), 5);
  EXPECT_EQ(static_cast<int>(last().integers[2]), 2);
  EXPECT_EQ(last().integers[3], 0U);
  EXPECT_EQ(last().stack[0], 21U);
}

TEST_F(Forward, KnowsTheParametersOfAllThatIsIntercepted) {
  std::map<std::string, int> known = {
      {"ncclBcast", 1}, {"ncclCommInitRank", 1}, {"ncclCommInitRankConfig", 1}};
  for (const Intercepted& intercepted : InterceptedEntries()) known[intercepted.entry.name] = 1;
  const char* const intercepted[] = {
#define INTERCEPT(name) "nccl" #name,
#define SETTLE(name)
#define SETTLE_ALL(name)
#define FORWARD(name)
#include "nccl/interposer/nccl_names.inc"
#undef INTERCEPT
#undef SETTLE
#undef SETTLE_ALL
#undef FORWARD
  };
  for (const char* name : intercepted) EXPECT_EQ(known.count(name), 1U) << name;
}

}  // namespace
}  // namespace cinch::testing
