// SPDX-License-Identifier: Apache-2.0
// Groups, errors, forwarding and decisions of the interposer, on doubles of NCCL and of the device.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "collectives/bf16_data.h"
#include "collectives/ranks.h"
#include "nccl/interposer/real_library.h"

namespace cinch::testing {
namespace {

using collectives::kNcclAverage;
using collectives::kNcclBfloat16;
using collectives::kNcclInvalidArgument;
using collectives::kNcclInvalidUsage;
using collectives::kNcclSuccess;
using collectives::kNcclSum;

constexpr uint64_t kMinBytes = 4096;
constexpr size_t kElements = 20000;

class Interposer : public ::testing::TestWithParam<PolicyMode> {};

TEST_P(Interposer, AllGathersTheSameBits) {
  Rig rig(GetParam(), kMinBytes);
  RunRanks(2, [](Rank& self) {
    for (int round = 0; round < 10; ++round) {
      const Bf16 mine = MakeData(self.rank, round, kElements);
      Bf16 all(2 * kElements, 1);
      ASSERT_EQ(
          ncclAllGather(mine.data(), all.data(), kElements, kNcclBfloat16, self.comm, &self.stream),
          kNcclSuccess);
      self.stream.Synchronize();
      ASSERT_EQ(all, Concatenate(MakeData(0, round, kElements), MakeData(1, round, kElements)));
    }
  });
}

TEST_P(Interposer, AllGathersInPlaceAndAhead) {
  Rig rig(GetParam(), kMinBytes);
  RunRanks(3, [](Rank& self) {
    std::vector<Bf16> all(30, Bf16(3 * kElements));
    std::atomic<bool> open{false};
    self.stream.Enqueue([&] {
      while (!open) std::this_thread::yield();
    });
    for (size_t round = 0; round < all.size(); ++round) {
      const Bf16 mine = MakeData(self.rank, static_cast<int>(round), kElements);
      uint16_t* own = all[round].data() + static_cast<size_t>(self.rank) * kElements;
      std::ranges::copy(mine, own);
      ASSERT_EQ(
          ncclAllGather(own, all[round].data(), kElements, kNcclBfloat16, self.comm, &self.stream),
          kNcclSuccess);
    }
    open = true;
    self.stream.Synchronize();
    for (size_t round = 0; round < all.size(); ++round) {
      Bf16 expected;
      for (int rank = 0; rank < 3; ++rank) {
        expected = Concatenate(expected, MakeData(rank, static_cast<int>(round), kElements));
      }
      ASSERT_EQ(all[round], expected) << round;
    }
  });
  EXPECT_EQ(rig.shim().Report().find(", 0 jobs"), std::string::npos)
      << "no job was left to the dispatcher:\n"
      << rig.shim().Report();
}

TEST_P(Interposer, ReducesInTheOrderOfTheRanks) {
  Rig rig(GetParam(), kMinBytes);
  RunRanks(3, [](Rank& self) {
    for (int round = 0; round < 8; ++round) {
      std::vector<Bf16> parts;
      parts.reserve(3);
      for (int rank = 0; rank < 3; ++rank) parts.push_back(MakeData(rank, round, kElements + 1));
      Bf16 data = parts[static_cast<size_t>(self.rank)];
      const int reduction = round % 2 == 0 ? kNcclSum : kNcclAverage;
      ASSERT_EQ(ncclAllReduce(data.data(), data.data(), data.size(), kNcclBfloat16, reduction,
                              self.comm, &self.stream),
                kNcclSuccess);
      self.stream.Synchronize();
      ASSERT_EQ(data, Sum(parts, round % 2 == 0 ? 1.0F : 1.0F / 3)) << round;
    }
  });
}

TEST_P(Interposer, ReduceScattersInPlace) {
  Rig rig(GetParam(), kMinBytes);
  RunRanks(2, [](Rank& self) {
    for (int round = 0; round < 8; ++round) {
      std::vector<Bf16> parts;
      parts.reserve(3);
      for (int rank = 0; rank < 2; ++rank) parts.push_back(MakeData(rank, round, 2 * kElements));
      Bf16 data = parts[static_cast<size_t>(self.rank)];
      uint16_t* own = data.data() + static_cast<size_t>(self.rank) * kElements;
      ASSERT_EQ(ncclReduceScatter(data.data(), own, kElements, kNcclBfloat16, kNcclSum, self.comm,
                                  &self.stream),
                kNcclSuccess);
      self.stream.Synchronize();
      const Bf16 sum = Sum(parts);
      ASSERT_TRUE(std::equal(own, own + kElements,
                             sum.begin() + self.rank * static_cast<std::ptrdiff_t>(kElements)));
    }
  });
}

TEST_P(Interposer, BroadcastsFromEveryRoot) {
  Rig rig(GetParam(), kMinBytes);
  RunRanks(3, [](Rank& self) {
    for (int round = 0; round < 12; ++round) {
      const int root = round % 3;
      Bf16 data = MakeData(self.rank, round, kElements);
      ASSERT_EQ(ncclBcast(data.data(), data.size(), kNcclBfloat16, root, self.comm, &self.stream),
                kNcclSuccess);
      self.stream.Synchronize();
      ASSERT_EQ(data, MakeData(root, round, kElements));
    }
  });
}

TEST_P(Interposer, AllToAllGatherAndScatterArePairs) {
  Rig rig(GetParam(), kMinBytes);
  RunRanks(3, [](Rank& self) {
    for (int round = 0; round < 6; ++round) {
      const Bf16 mine = MakeData(self.rank, round, 3 * kElements);
      Bf16 got(3 * kElements);
      ASSERT_EQ(
          ncclAlltoAll(mine.data(), got.data(), kElements, kNcclBfloat16, self.comm, &self.stream),
          kNcclSuccess);
      Bf16 gathered(3 * kElements);
      ASSERT_EQ(ncclGather(mine.data(), self.rank == 1 ? gathered.data() : nullptr, kElements,
                           kNcclBfloat16, 1, self.comm, &self.stream),
                kNcclSuccess);
      Bf16 scattered(kElements);
      ASSERT_EQ(ncclScatter(self.rank == 2 ? mine.data() : nullptr, scattered.data(), kElements,
                            kNcclBfloat16, 2, self.comm, &self.stream),
                kNcclSuccess);
      self.stream.Synchronize();
      const auto at = static_cast<std::ptrdiff_t>(kElements);
      for (int peer = 0; peer < 3; ++peer) {
        const Bf16 theirs = MakeData(peer, round, 3 * kElements);
        ASSERT_TRUE(std::equal(got.begin() + peer * at, got.begin() + (peer + 1) * at,
                               theirs.begin() + self.rank * at));
        if (self.rank == 1) {
          ASSERT_TRUE(std::equal(gathered.begin() + peer * at, gathered.begin() + (peer + 1) * at,
                                 theirs.begin()));
        }
      }
      const Bf16 root = MakeData(2, round, 3 * kElements);
      ASSERT_TRUE(std::equal(scattered.begin(), scattered.end(), root.begin() + self.rank * at));
    }
  });
}

TEST_P(Interposer, RepairsFramesThatDoNotFit) {
  Rig rig(GetParam(), kMinBytes);
  RunRanks(2, [](Rank& self) {
    for (int round = 0; round < 30; ++round) {
      // Weights teach it small slots; then one rank's data, or both ranks', stop fitting.
      const bool first = round % 5 == 3 || round % 5 == 4;
      const bool second = round % 5 == 4;
      const Bf16 expected0 = MakeData(0, round, kElements, first);
      const Bf16 expected1 = MakeData(1, round, kElements, second);
      const Bf16& mine = self.rank == 0 ? expected0 : expected1;
      Bf16 all(2 * kElements);
      ASSERT_EQ(
          ncclAllGather(mine.data(), all.data(), kElements, kNcclBfloat16, self.comm, &self.stream),
          kNcclSuccess);
      Bf16 got(kElements);
      ASSERT_EQ(ncclGroupStart(), kNcclSuccess);
      ASSERT_EQ(
          ncclSend(mine.data(), kElements, kNcclBfloat16, 1 - self.rank, self.comm, &self.stream),
          kNcclSuccess);
      ASSERT_EQ(
          ncclRecv(got.data(), kElements, kNcclBfloat16, 1 - self.rank, self.comm, &self.stream),
          kNcclSuccess);
      ASSERT_EQ(ncclGroupEnd(), kNcclSuccess);
      self.stream.Synchronize();
      ASSERT_EQ(all, Concatenate(expected0, expected1)) << round;
      ASSERT_EQ(got, self.rank == 0 ? expected1 : expected0) << round;
    }
    int error = -1;
    ASSERT_EQ(ncclCommGetAsyncError(self.comm, &error), kNcclSuccess);
    EXPECT_EQ(error, kNcclSuccess);
  });
  EXPECT_EQ(rig.shim().Report().find("; 0 frames did not fit"), std::string::npos)
      << rig.shim().Report();
}

TEST_P(Interposer, CallsWithoutElementsMayHaveNoBuffers) {
  Rig rig(GetParam(), kMinBytes);
  RunRanks(2, [](Rank& self) {
    void* const comm = self.comm;
    HostStream* const stream = &self.stream;
    EXPECT_EQ(ncclAllGather(nullptr, nullptr, 0, kNcclBfloat16, comm, stream), kNcclSuccess);
    EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 0, kNcclBfloat16, kNcclSum, comm, stream),
              kNcclSuccess);
    EXPECT_EQ(ncclReduceScatter(nullptr, nullptr, 0, kNcclBfloat16, kNcclSum, comm, stream),
              kNcclSuccess);
    EXPECT_EQ(ncclBroadcast(nullptr, nullptr, 0, kNcclBfloat16, 0, comm, stream), kNcclSuccess);
    EXPECT_EQ(ncclAlltoAll(nullptr, nullptr, 0, kNcclBfloat16, comm, stream), kNcclSuccess);
    ASSERT_EQ(ncclGroupStart(), kNcclSuccess);
    EXPECT_EQ(ncclSend(nullptr, 0, kNcclBfloat16, 1 - self.rank, comm, stream), kNcclSuccess);
    EXPECT_EQ(ncclRecv(nullptr, 0, kNcclBfloat16, 1 - self.rank, comm, stream), kNcclSuccess);
    ASSERT_EQ(ncclGroupEnd(), kNcclSuccess);
    self.stream.Synchronize();
  });
}

INSTANTIATE_TEST_SUITE_P(Policies, Interposer,
                         ::testing::Values(PolicyMode::kAuto, PolicyMode::kCompressed),
                         [](const auto& policy) {
                           return policy.param == PolicyMode::kAuto ? "Auto" : "Compressed";
                         });

TEST(InterposerTraffic, SendsFewerBytes) {
  Rig rig(PolicyMode::kAuto, kMinBytes);
  RunRanks(2, [&](Rank& self) {
    for (int round = 0; round < 40; ++round) {
      const Bf16 mine = MakeData(self.rank, round, kElements);
      Bf16 all(2 * kElements);
      ASSERT_EQ(
          ncclAllGather(mine.data(), all.data(), kElements, kNcclBfloat16, self.comm, &self.stream),
          kNcclSuccess);
      self.stream.Synchronize();
    }
  });
  const uint64_t raw = uint64_t{40} * 2 * 2 * kElements;
  const uint64_t sent = rig.TakeWireBytes();
  // The double's links are faster than any codec, so timing may send it back to plain in between.
  EXPECT_LT(sent, raw);
}

TEST(InterposerTraffic, LeavesSmallMessagesAlone) {
  Rig rig(PolicyMode::kCompressed, kMinBytes);
  RunRanks(2, [&](Rank& self) {
    Bf16 mine = MakeData(self.rank, 0, 100);
    Bf16 all(200);
    for (int round = 0; round < 10; ++round) {
      ASSERT_EQ(ncclAllGather(mine.data(), all.data(), 100, kNcclBfloat16, self.comm, &self.stream),
                kNcclSuccess);
    }
    self.stream.Synchronize();
  });
  EXPECT_EQ(rig.TakeCalls(), 20U);
  EXPECT_EQ(rig.TakeWireBytes(), 20U * 200);
}

TEST(InterposerTraffic, PassesEverythingThroughWhenPinnedRaw) {
  Rig rig(PolicyMode::kRaw, kMinBytes);
  RunRanks(2, [&](Rank& self) {
    const Bf16 mine = MakeData(self.rank, 0, kElements);
    Bf16 all(2 * kElements);
    EXPECT_FALSE(rig.shim().IsKnown(self.comm));
    for (int round = 0; round < 10; ++round) {
      ASSERT_EQ(
          ncclAllGather(mine.data(), all.data(), kElements, kNcclBfloat16, self.comm, &self.stream),
          kNcclSuccess);
    }
    self.stream.Synchronize();
  });
  EXPECT_EQ(rig.TakeCalls(), 20U);
}

TEST(InterposerTraffic, PassesCapturedStreamsThrough) {
  Rig rig(PolicyMode::kCompressed, kMinBytes);
  rig.device().capturing = true;
  RunRanks(2, [&](Rank& self) {
    const Bf16 mine = MakeData(self.rank, 0, kElements);
    Bf16 all(2 * kElements);
    for (int round = 0; round < 10; ++round) {
      ASSERT_EQ(ncclGroupStart(), kNcclSuccess);
      ASSERT_EQ(
          ncclAllGather(mine.data(), all.data(), kElements, kNcclBfloat16, self.comm, &self.stream),
          kNcclSuccess);
      ASSERT_EQ(ncclGroupEnd(), kNcclSuccess);
    }
    self.stream.Synchronize();
  });
  EXPECT_EQ(rig.TakeWireBytes(), 20U * 2 * kElements);
}

TEST(InterposerGroups, LaunchNothingBeforeTheOutermostEnd) {
  Rig rig(PolicyMode::kCompressed, kMinBytes);
  RunRanks(2, [&](Rank& self) {
    const Bf16 mine = MakeData(self.rank, 0, kElements);
    Bf16 got(kElements, 0);
    ASSERT_EQ(ncclGroupStart(), kNcclSuccess);
    ASSERT_EQ(ncclGroupStart(), kNcclSuccess);
    ASSERT_EQ(
        ncclSend(mine.data(), kElements, kNcclBfloat16, 1 - self.rank, self.comm, &self.stream),
        kNcclSuccess);
    ASSERT_EQ(
        ncclRecv(got.data(), kElements, kNcclBfloat16, 1 - self.rank, self.comm, &self.stream),
        kNcclSuccess);
    ASSERT_EQ(ncclGroupEnd(), kNcclSuccess);
    self.stream.Synchronize();
    EXPECT_EQ(got, Bf16(kElements, 0));
    ASSERT_EQ(ncclGroupEnd(), kNcclSuccess);
    self.stream.Synchronize();
    EXPECT_EQ(got, MakeData(1 - self.rank, 0, kElements));
  });
}

TEST(InterposerGroups, EndWithoutStartIsInvalidUsage) {
  Rig rig(PolicyMode::kAuto, kMinBytes);
  EXPECT_EQ(ncclGroupEnd(), kNcclInvalidUsage);
  EXPECT_EQ(ncclGroupStart(), kNcclSuccess);
  EXPECT_EQ(ncclGroupEnd(), kNcclSuccess);
  EXPECT_EQ(ncclGroupEnd(), kNcclInvalidUsage);
}

TEST(InterposerGroups, AnErrorDiscardsTheGroup) {
  Rig rig(PolicyMode::kCompressed, kMinBytes);
  RunRanks(2, [&](Rank& self) {
    const Bf16 mine = MakeData(self.rank, 0, kElements);
    Bf16 all(2 * kElements, 0);
    ASSERT_EQ(ncclGroupStart(), kNcclSuccess);
    ASSERT_EQ(
        ncclAllGather(mine.data(), all.data(), kElements, kNcclBfloat16, self.comm, &self.stream),
        kNcclSuccess);
    EXPECT_EQ(ncclAllGather(mine.data(), all.data(), kElements, 99, self.comm, &self.stream),
              kNcclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), kNcclInvalidArgument);
    self.stream.Synchronize();
    EXPECT_EQ(all, Bf16(2 * kElements, 0));
  });
}

TEST(InterposerErrors, ComeFromNccl) {
  Rig rig(PolicyMode::kCompressed, kMinBytes);
  RunRanks(2, [&](Rank& self) {
    Bf16 data(kElements);
    EXPECT_EQ(ncclBcast(data.data(), kElements, kNcclBfloat16, 2, self.comm, &self.stream),
              kNcclInvalidArgument);
    EXPECT_EQ(ncclBcast(data.data(), kElements, -1, 0, self.comm, &self.stream),
              kNcclInvalidArgument);
    EXPECT_EQ(
        ncclAllGather(data.data(), data.data(), kElements, kNcclBfloat16, nullptr, &self.stream),
        kNcclInvalidArgument);
  });
}

TEST(InterposerAbort, LetsWaitingStreamsGo) {
  Rig rig(PolicyMode::kCompressed, kMinBytes);
  RunRanks(2, [&](Rank& self) {
    const Bf16 mine = MakeData(self.rank, 0, kElements);
    Bf16 got(kElements);
    // Rank 1 never sends.
    if (self.rank == 0) {
      ASSERT_EQ(ncclRecv(got.data(), kElements, kNcclBfloat16, 1, self.comm, &self.stream),
                kNcclSuccess);
    }
    ASSERT_EQ(ncclCommAbort(self.comm), kNcclSuccess);
    self.stream.Synchronize();
    self.comm = nullptr;
  });
}

TEST(InterposerSplit, ChildrenAreCompressedToo) {
  Rig rig(PolicyMode::kCompressed, kMinBytes);
  RunRanks(2, [&](Rank& self) {
    void* child = nullptr;
    ASSERT_EQ(ncclCommSplit(self.comm, 0, self.rank, &child, nullptr), kNcclSuccess);
    EXPECT_TRUE(rig.shim().IsKnown(child));
    const Bf16 mine = MakeData(self.rank, 0, kElements);
    Bf16 all(2 * kElements);
    ASSERT_EQ(ncclAllGather(mine.data(), all.data(), kElements, kNcclBfloat16, child, &self.stream),
              kNcclSuccess);
    self.stream.Synchronize();
    EXPECT_EQ(all, Concatenate(MakeData(0, 0, kElements), MakeData(1, 0, kElements)));
    ASSERT_EQ(ncclCommFinalize(child), kNcclSuccess);
    ASSERT_EQ(ncclCommDestroy(child), kNcclSuccess);
    void* none = &self;
    ASSERT_EQ(ncclCommSplit(self.comm, -1, 0, &none, nullptr), kNcclSuccess);
    EXPECT_EQ(none, nullptr);
  });
}

// Parts of a group share a stream: each rank's repair of what it got needs that the peer has looked
// at what it sent, which must not be behind the peer's own repair.
TEST(InterposerSplit, RepairsOfAGroupDoNotWaitForEachOther) {
  Rig rig(PolicyMode::kCompressed, kMinBytes);
  RunRanks(2, [&](Rank& self) {
    void* child = nullptr;
    ASSERT_EQ(ncclCommSplit(self.comm, 0, self.rank, &child, nullptr), kNcclSuccess);
    void* from = self.rank == 0 ? self.comm : child;
    void* to = self.rank == 0 ? child : self.comm;
    const int peer = 1 - self.rank;
    for (int round = 0; round < 40; ++round) {
      const bool noise = round % 12 == 11;
      const Bf16 mine = MakeData(self.rank, round, kElements, noise);
      Bf16 got(kElements);
      ASSERT_EQ(ncclGroupStart(), kNcclSuccess);
      ASSERT_EQ(ncclRecv(got.data(), kElements, kNcclBfloat16, peer, from, &self.stream),
                kNcclSuccess);
      ASSERT_EQ(ncclSend(mine.data(), kElements, kNcclBfloat16, peer, to, &self.stream),
                kNcclSuccess);
      ASSERT_EQ(ncclGroupEnd(), kNcclSuccess);
      self.stream.Synchronize();
      ASSERT_EQ(got, MakeData(peer, round, kElements, noise)) << round;
    }
    ASSERT_EQ(ncclCommDestroy(child), kNcclSuccess);
  });
  EXPECT_EQ(rig.shim().Report().find("; 0 frames did not fit"), std::string::npos)
      << rig.shim().Report();
}

TEST(InterposerReport, CountsWhatWasSent) {
  Rig rig(PolicyMode::kCompressed, kMinBytes);
  RunRanks(2, [&](Rank& self) {
    const Bf16 mine = MakeData(self.rank, 0, kElements);
    Bf16 all(2 * kElements);
    ASSERT_EQ(
        ncclAllGather(mine.data(), all.data(), kElements, kNcclBfloat16, self.comm, &self.stream),
        kNcclSuccess);
    self.stream.Synchronize();
  });
  const std::string report = rig.shim().Report();
  EXPECT_NE(report.find("rank 0/2: 1 operations could be compressed, 1 were"), std::string::npos)
      << report;
}

TEST(InterposerMemory, IsGivenBack) {
  Rig rig(PolicyMode::kCompressed, kMinBytes);
  for (int round = 0; round < 3; ++round) {
    RunRanks(2, [&](Rank& self) {
      const Bf16 mine = MakeData(self.rank, 0, kElements);
      Bf16 all(2 * kElements);
      for (int i = 0; i < 5; ++i) {
        ASSERT_EQ(ncclAllGather(mine.data(), all.data(), kElements, kNcclBfloat16, self.comm,
                                &self.stream),
                  kNcclSuccess);
      }
      self.stream.Synchronize();
    });
    EXPECT_EQ(rig.device().live_allocations, 0);
  }
}

}  // namespace
}  // namespace cinch::testing
