// SPDX-License-Identifier: Apache-2.0
// What applications do with communicators and groups beside moving data: non-blocking ones,
// windows, splitting and shrinking, revoking and aborting in the middle of things, many in one
// group or thread.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "collectives/bf16_data.h"
#include "collectives/ranks.h"

namespace cinch::testing {
namespace {

using collectives::kNcclBfloat16;
using collectives::kNcclInProgress;
using collectives::kNcclInvalidArgument;
using collectives::kNcclInvalidUsage;
using collectives::kNcclSuccess;

constexpr uint64_t kMinBytes = 4096;
constexpr size_t kElements = 20000;

/// Every test: no use of a communicator that NCCL forbids.
class Comms : public ::testing::Test {
 protected:
  Rig& Make(PolicyMode policy, uint64_t min_bytes = kMinBytes, double patience_seconds = 0) {
    rig_.reset();
    rig_ = std::make_unique<Rig>(policy, min_bytes, patience_seconds);
    violations_ = rig_->violations();
    return *rig_;
  }
  void TearDown() override {
    EXPECT_EQ(rig_->violations(), violations_);
    EXPECT_EQ(rig_->device().live_allocations, 0);
  }

 private:
  std::unique_ptr<Rig> rig_;
  uint64_t violations_ = 0;
};

int AllGather(const Bf16& mine, Bf16* all, void* comm, HostStream* stream) {
  return ncclAllGather(mine.data(), all->data(), mine.size(), kNcclBfloat16, comm, stream);
}

Bf16 Gathered(int ranks, int round, size_t elements = kElements) {
  Bf16 all;
  for (int rank = 0; rank < ranks; ++rank) {
    all = Concatenate(all, MakeData(rank, round, elements));
  }
  return all;
}

/// Gathers until the calls are compressed, and checks every round.
void GatherRounds(void* comm, int rank, int ranks, HostStream* stream, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const Bf16 mine = MakeData(rank, round, kElements);
    Bf16 all(static_cast<size_t>(ranks) * kElements);
    ASSERT_EQ(AllGather(mine, &all, comm, stream), kNcclSuccess);
    stream->Synchronize();
    ASSERT_EQ(all, Gathered(ranks, round)) << round;
  }
}

int PollUntilDone(void* comm) {
  int error = kNcclInProgress;
  while (error == kNcclInProgress) EXPECT_EQ(ncclCommGetAsyncError(comm, &error), kNcclSuccess);
  return error;
}

TEST_F(Comms, NonBlockingOnesArePassedThroughAndSaidSo) {
  Rig& rig = Make(PolicyMode::kCompressed);
  CommConfig config;
  config.blocking = 0;
  RunRanks(
      2,
      [&](Rank& self) {
        ASSERT_EQ(PollUntilDone(self.comm), kNcclSuccess);
        EXPECT_FALSE(rig.shim().IsKnown(self.comm));
        for (int round = 0; round < 4; ++round) {
          const Bf16 mine = MakeData(self.rank, round, kElements);
          Bf16 all(2 * kElements);
          ASSERT_EQ(AllGather(mine, &all, self.comm, &self.stream), kNcclInProgress);
          ASSERT_EQ(PollUntilDone(self.comm), kNcclSuccess);
          self.stream.Synchronize();
          ASSERT_EQ(all, Gathered(2, round));
        }
        Bf16 mine = MakeData(self.rank, 9, kElements);
        ASSERT_EQ(ncclGroupStart(), kNcclSuccess);
        ASSERT_EQ(ncclBcast(mine.data(), kElements, kNcclBfloat16, 0, self.comm, &self.stream),
                  kNcclSuccess);
        ASSERT_EQ(ncclGroupEnd(), kNcclInProgress);
        ASSERT_EQ(PollUntilDone(self.comm), kNcclSuccess);
        self.stream.Synchronize();
        EXPECT_EQ(mine, MakeData(0, 9, kElements));
        // A child of it is non-blocking too.
        void* child = nullptr;
        ASSERT_EQ(ncclCommSplit(self.comm, 0, self.rank, &child, nullptr), kNcclInProgress);
        ASSERT_EQ(PollUntilDone(child), kNcclSuccess);
        EXPECT_FALSE(rig.shim().IsKnown(child));
        ASSERT_EQ(ncclCommDestroy(child), kNcclSuccess);
      },
      &config);
  EXPECT_NE(rig.shim().Report().find("2 communicators passed through: non-blocking"),
            std::string::npos)
      << rig.shim().Report();
}

TEST_F(Comms, NonBlockingChildrenOfBlockingOnesArePassedThrough) {
  Rig& rig = Make(PolicyMode::kCompressed);
  RunRanks(2, [&](Rank& self) {
    CommConfig config;
    config.blocking = 0;
    void* child = nullptr;
    ASSERT_EQ(ncclGroupStart(), kNcclSuccess);
    ASSERT_EQ(ncclCommSplit(self.comm, 0, self.rank, &child, &config), kNcclSuccess);
    ASSERT_EQ(ncclGroupEnd(), kNcclInProgress);
    ASSERT_EQ(PollUntilDone(child), kNcclSuccess);
    EXPECT_FALSE(rig.shim().IsKnown(child));
    ASSERT_EQ(ncclCommDestroy(child), kNcclSuccess);
    GatherRounds(self.comm, self.rank, 2, &self.stream, 2);
  });
}

TEST_F(Comms, RegisteredBuffersAndWindowsAreCompressedAlike) {
  Rig& rig = Make(PolicyMode::kCompressed);
  RunRanks(2, [](Rank& self) {
    Bf16 mine = MakeData(self.rank, 0, kElements);
    Bf16 all(2 * kElements);
    void* window = nullptr;
    void* handle = nullptr;
    ASSERT_EQ(ncclCommWindowRegister(self.comm, mine.data(), 2 * kElements, &window, 1), 0);
    ASSERT_EQ(ncclCommRegister(self.comm, all.data(), 4 * kElements, &handle), 0);
    std::thread opener;
    std::atomic<bool> open{false};
    self.stream.Enqueue([&] {
      while (!open) std::this_thread::yield();
    });
    for (int i = 0; i < 8; ++i) {
      ASSERT_EQ(AllGather(mine, &all, self.comm, &self.stream), kNcclSuccess);
    }
    opener = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      open = true;
    });
    // While the dispatcher still has calls of this communicator to make.
    EXPECT_EQ(ncclCommDeregister(self.comm, handle), 0);
    EXPECT_EQ(ncclCommWindowDeregister(self.comm, window), 0);
    opener.join();
    self.stream.Synchronize();
    EXPECT_EQ(all, Gathered(2, 0));
  });
  EXPECT_EQ(rig.shim().Report().find(", 0 jobs"), std::string::npos) << rig.shim().Report();
}

TEST_F(Comms, SplitWaitsForWhatIsLeftToTheDispatcher) {
  Rig& rig = Make(PolicyMode::kAuto);
  RunRanks(3, [&](Rank& self) {
    std::vector<Bf16> all(12, Bf16(3 * kElements));
    std::atomic<bool> open{false};
    self.stream.Enqueue([&] {
      while (!open) std::this_thread::yield();
    });
    for (size_t round = 0; round < all.size(); ++round) {
      const Bf16 mine = MakeData(self.rank, static_cast<int>(round), kElements);
      std::ranges::copy(mine, all[round].begin() + self.rank * static_cast<int>(kElements));
      ASSERT_EQ(ncclAllGather(all[round].data() + static_cast<size_t>(self.rank) * kElements,
                              all[round].data(), kElements, kNcclBfloat16, self.comm, &self.stream),
                kNcclSuccess);
    }
    std::thread opener([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      open = true;
    });
    // Ranks 0 and 2 in one, in turned order; rank 1 alone.
    void* child = nullptr;
    ASSERT_EQ(ncclCommSplit(self.comm, self.rank % 2, -self.rank, &child, nullptr), kNcclSuccess);
    opener.join();
    self.stream.Synchronize();
    for (size_t round = 0; round < all.size(); ++round) {
      ASSERT_EQ(all[round], Gathered(3, static_cast<int>(round))) << round;
    }
    EXPECT_EQ(rig.shim().IsKnown(child), self.rank != 1);
    if (self.rank != 1) GatherRounds(child, self.rank == 2 ? 0 : 1, 2, &self.stream, 3);
    ASSERT_EQ(ncclCommDestroy(child), kNcclSuccess);
  });
  EXPECT_NE(rig.shim().Report().find("1 communicators passed through: of one rank"),
            std::string::npos)
      << rig.shim().Report();
}

TEST_F(Comms, ShrunkenOnesAreCompressed) {
  Rig& rig = Make(PolicyMode::kCompressed);
  RunRanks(3, [&](Rank& self) {
    if (self.rank == 1) return;
    int excluded = 1;
    void* child = nullptr;
    ASSERT_EQ(ncclCommShrink(self.comm, &excluded, 1, &child, nullptr, 0), kNcclSuccess);
    EXPECT_TRUE(rig.shim().IsKnown(child));
    GatherRounds(child, self.rank / 2, 2, &self.stream, 3);
    ASSERT_EQ(ncclCommDestroy(child), kNcclSuccess);
  });
}

TEST_F(Comms, RevokingLetsWaitingStreamsGo) {
  Make(PolicyMode::kCompressed);
  RunRanks(2, [](Rank& self) {
    Bf16 data(kElements);
    // Rank 1 never sends.
    if (self.rank == 0) {
      ASSERT_EQ(ncclRecv(data.data(), kElements, kNcclBfloat16, 1, self.comm, &self.stream),
                kNcclSuccess);
    }
    ASSERT_EQ(ncclCommRevoke(self.comm, 0), kNcclSuccess);
    self.stream.Synchronize();
    // What is refused is NCCL's to refuse.
    EXPECT_EQ(ncclBcast(data.data(), kElements, kNcclBfloat16, 0, self.comm, &self.stream),
              kNcclInvalidUsage);
    EXPECT_EQ(ncclCommFinalize(self.comm), kNcclInvalidUsage);
    void* child = nullptr;
    ASSERT_EQ(ncclCommSplit(self.comm, 0, self.rank, &child, nullptr), kNcclSuccess);
    GatherRounds(child, self.rank, 2, &self.stream, 2);
    ASSERT_EQ(ncclCommDestroy(child), kNcclSuccess);
  });
}

TEST_F(Comms, AGroupThatLosesACommunicatorIsDiscarded) {
  Make(PolicyMode::kCompressed);
  RunRanks(2, [](Rank& self) {
    void* child = nullptr;
    ASSERT_EQ(ncclCommSplit(self.comm, 0, self.rank, &child, nullptr), kNcclSuccess);
    const Bf16 mine = MakeData(self.rank, 0, kElements);
    Bf16 all(2 * kElements, 7);
    for (const auto end : {&ncclCommAbort, &ncclCommDestroy}) {
      ASSERT_EQ(ncclGroupStart(), kNcclSuccess);
      ASSERT_EQ(AllGather(mine, &all, child, &self.stream), kNcclSuccess);
      ASSERT_EQ(end(child), kNcclSuccess);
      ASSERT_EQ(ncclGroupEnd(), kNcclInvalidUsage);
      EXPECT_EQ(all, Bf16(2 * kElements, 7));
      ASSERT_EQ(ncclCommSplit(self.comm, 0, self.rank, &child, nullptr), kNcclSuccess);
    }
    GatherRounds(child, self.rank, 2, &self.stream, 2);
    ASSERT_EQ(ncclCommDestroy(child), kNcclSuccess);
  });
}

TEST_F(Comms, AnErrorInANestedGroupDiscardsTheWholeAndNothingElse) {
  Make(PolicyMode::kCompressed);
  RunRanks(2, [](Rank& self) {
    const Bf16 mine = MakeData(self.rank, 0, kElements);
    Bf16 first(2 * kElements, 0);
    Bf16 second(2 * kElements, 0);
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(ncclGroupStart(), kNcclSuccess);
      ASSERT_EQ(AllGather(mine, &first, self.comm, &self.stream), kNcclSuccess);
      ASSERT_EQ(ncclGroupStart(), kNcclSuccess);
      EXPECT_EQ(ncclSend(mine.data(), kElements, kNcclBfloat16, 7, self.comm, &self.stream),
                kNcclInvalidArgument);
      ASSERT_EQ(ncclGroupEnd(), kNcclSuccess);
      ASSERT_EQ(AllGather(mine, &second, self.comm, &self.stream), kNcclSuccess);
      ASSERT_EQ(ncclGroupEnd(), kNcclInvalidArgument);
      self.stream.Synchronize();
      EXPECT_EQ(first, Bf16(2 * kElements, 0));
      EXPECT_EQ(second, Bf16(2 * kElements, 0));
      GatherRounds(self.comm, self.rank, 2, &self.stream, 2);
    }
  });
}

// One thread that has all ranks, as single-process programs do it.
TEST_F(Comms, OneThreadDrivesAllRanksByGroups) {
  for (const PolicyMode policy : {PolicyMode::kCompressed, PolicyMode::kAuto}) {
    Rig& rig = Make(policy);
    std::array<void*, 3> comms{};
    std::array<HostStream, 3> streams;
    ASSERT_EQ(ncclCommInitAll(comms.data(), 3, nullptr), kNcclSuccess);
    for (int round = 0; round < 24; ++round) {
      std::array<Bf16, 3> mine;
      std::vector<Bf16> all(3, Bf16(3 * kElements));
      // Now and then nothing fits.
      for (int rank = 0; rank < 3; ++rank) {
        mine[static_cast<size_t>(rank)] = MakeData(rank, round, kElements, round % 6 == 5);
      }
      ASSERT_EQ(ncclGroupStart(), kNcclSuccess);
      for (size_t rank = 0; rank < 3; ++rank) {
        ASSERT_EQ(AllGather(mine[rank], &all[rank], comms[rank], &streams[rank]), kNcclSuccess);
      }
      ASSERT_EQ(ncclGroupEnd(), kNcclSuccess);
      for (HostStream& stream : streams) stream.Synchronize();
      const Bf16 expected = Concatenate(Concatenate(mine[0], mine[1]), mine[2]);
      for (const Bf16& got : all) ASSERT_EQ(got, expected) << round;
    }
    ASSERT_EQ(ncclGroupStart(), kNcclSuccess);
    for (void* comm : comms) ASSERT_EQ(ncclCommDestroy(comm), kNcclSuccess);
    ASSERT_EQ(ncclGroupEnd(), kNcclSuccess);
    EXPECT_NE(rig.shim().Report().find("rank 2/3"), std::string::npos) << rig.shim().Report();
  }
}

TEST_F(Comms, ThreadsWithACommunicatorEachDoNotDisturbEachOther) {
  Make(PolicyMode::kAuto);
  constexpr int kThreads = 3;
  RunRanks(2, [](Rank& self) {
    std::array<void*, kThreads> comms{};
    for (void*& comm : comms) {
      ASSERT_EQ(ncclCommSplit(self.comm, 0, self.rank, &comm, nullptr), kNcclSuccess);
    }
    std::array<std::thread, kThreads> threads;
    for (size_t i = 0; i < threads.size(); ++i) {
      threads[i] = std::thread([&self, comm = comms[i]] {
        HostStream stream;
        GatherRounds(comm, self.rank, 2, &stream, 40);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (void* comm : comms) ASSERT_EQ(ncclCommDestroy(comm), kNcclSuccess);
  });
}

TEST_F(Comms, ACommunicatorMayGoFromThreadToThread) {
  Make(PolicyMode::kAuto);
  RunRanks(2, [](Rank& self) {
    for (int turn = 0; turn < 12; ++turn) {
      std::thread other([&] {
        const Bf16 mine = MakeData(self.rank, turn, kElements);
        Bf16 all(2 * kElements);
        ASSERT_EQ(AllGather(mine, &all, self.comm, &self.stream), kNcclSuccess);
        self.stream.Synchronize();
        ASSERT_EQ(all, Gathered(2, turn));
      });
      other.join();
    }
  });
}

TEST_F(Comms, SimulatedGroupsLeaveNoTrace) {
  Make(PolicyMode::kAuto);
  RunRanks(2, [](Rank& self) {
    const Bf16 mine = MakeData(self.rank, 0, kElements);
    Bf16 all(2 * kElements, 3);
    for (int round = 0; round < 6; ++round) {
      // On one rank alone: it must not get out of step with the other.
      if (self.rank == 0) {
        size_t calls = 0;
        ASSERT_EQ(ncclGroupStart(), kNcclSuccess);
        ASSERT_EQ(AllGather(mine, &all, self.comm, &self.stream), kNcclSuccess);
        ASSERT_EQ(ncclGroupStart(), kNcclSuccess);
        ASSERT_EQ(AllGather(mine, &all, self.comm, &self.stream), kNcclSuccess);
        ASSERT_EQ(ncclGroupSimulateEnd(&calls), kNcclSuccess);
        ASSERT_EQ(ncclGroupSimulateEnd(&calls), kNcclSuccess);
        EXPECT_EQ(calls, 2U);
        self.stream.Synchronize();
        EXPECT_EQ(all, Bf16(2 * kElements, 3));
        EXPECT_EQ(ncclGroupEnd(), kNcclInvalidUsage);
      }
      GatherRounds(self.comm, self.rank, 2, &self.stream, 3);
    }
  });
}

TEST_F(Comms, NothingIsNeverTooSmall) {
  Make(PolicyMode::kCompressed, 0);
  RunRanks(2, [](Rank& self) {
    for (int round = 0; round < 8; ++round) {
      Bf16 data(4, 1);
      HostStream* stream = &self.stream;
      ASSERT_EQ(ncclAllGather(data.data(), data.data(), 0, kNcclBfloat16, self.comm, stream), 0);
      ASSERT_EQ(ncclBcast(nullptr, 0, kNcclBfloat16, 1, self.comm, stream), 0);
      ASSERT_EQ(ncclAllReduce(nullptr, nullptr, 0, kNcclBfloat16, 0, self.comm, stream), 0);
      ASSERT_EQ(ncclReduceScatter(nullptr, nullptr, 0, kNcclBfloat16, 0, self.comm, stream), 0);
      ASSERT_EQ(ncclAlltoAll(nullptr, nullptr, 0, kNcclBfloat16, self.comm, stream), 0);
      // One element, too.
      data[static_cast<size_t>(self.rank)] = static_cast<uint16_t>(16000 + self.rank);
      ASSERT_EQ(ncclAllGather(&data[static_cast<size_t>(self.rank)], data.data(), 1, kNcclBfloat16,
                              self.comm, stream),
                0);
      self.stream.Synchronize();
      ASSERT_EQ(data, (Bf16{16000, 16001, 1, 1}));
      uint16_t sum = ToBf16(1.5F);
      ASSERT_EQ(ncclAllReduce(&sum, &sum, 1, kNcclBfloat16, 0, self.comm, stream), 0);
      self.stream.Synchronize();
      ASSERT_EQ(FromBf16(sum), 3.0F);
    }
  });
}

// Kinds that are used for the first time while frames of others are being repaired: the shadow
// communicator must be used in one order, and never behind a stream that waits for a repair.
TEST_F(Comms, FirstsDuringRepairs) {
  for (int attempt = 0; attempt < 6; ++attempt) {
    Rig& rig = Make(PolicyMode::kCompressed);
    RunRanks(3, [](Rank& self) {
      std::vector<Bf16> all(40, Bf16(3 * kElements));
      std::vector<Bf16> mine(all.size());
      std::vector<Bf16> copies(all.size());
      for (size_t round = 0; round < all.size(); ++round) {
        const bool noise = round > 20 && round % 4 == 0;
        mine[round] = MakeData(self.rank, static_cast<int>(round), kElements, noise);
        ASSERT_EQ(AllGather(mine[round], &all[round], self.comm, &self.stream), kNcclSuccess);
        // Each time another size class or root, so that it is the first of its kind.
        if (round > 20) {
          copies[round] = MakeData(self.rank, 100, kElements >> (round % 3));
          ASSERT_EQ(ncclBcast(copies[round].data(), copies[round].size(), kNcclBfloat16,
                              static_cast<int>(round / 3) % 3, self.comm, &self.stream),
                    kNcclSuccess);
        }
        if (round <= 20) self.stream.Synchronize();
      }
      self.stream.Synchronize();
      for (size_t round = 0; round < all.size(); ++round) {
        Bf16 expected;
        for (int rank = 0; rank < 3; ++rank) {
          expected = Concatenate(expected, MakeData(rank, static_cast<int>(round), kElements,
                                                    round > 20 && round % 4 == 0));
        }
        ASSERT_EQ(all[round], expected) << round;
        if (round > 20) {
          ASSERT_EQ(copies[round],
                    MakeData(static_cast<int>(round / 3) % 3, 100, kElements >> (round % 3)));
        }
      }
    });
    EXPECT_EQ(rig.shim().Report().find("; 0 frames did not fit"), std::string::npos)
        << rig.shim().Report();
  }
}

TEST(WhyPlain, TooManyRanksForOneLaunchMatterToReductionsOnly) {
  static int ranks = 0;
  collectives::NcclApi api{};
  api.comm_count = [](void*, int* count) {
    *count = ranks;
    return int{kNcclSuccess};
  };
  api.comm_rank = api.comm_device = [](void*, int* value) {
    *value = 0;
    return int{kNcclSuccess};
  };
  HostDevice device;
  collectives::Operation operation;
  operation.count = size_t{1} << 30;
  operation.dtype = kNcclBfloat16;
  for (ranks = 127; ranks < 131; ++ranks) {
    const collectives::Communicator comm(api, &device, nullptr, nullptr, {});
    for (const auto kind : {collectives::Kind::kAllReduce, collectives::Kind::kReduceScatter}) {
      operation.kind = kind;
      EXPECT_EQ(comm.WhyPlain(operation),
                ranks <= 128 ? collectives::Plain::kNone : collectives::Plain::kRanks);
    }
    operation.kind = collectives::Kind::kAllGather;
    EXPECT_EQ(comm.WhyPlain(operation), collectives::Plain::kNone);
  }
}

TEST_F(Comms, TheReportSaysWhatIsOff) {
  Rig& rig = Make(PolicyMode::kRaw);
  RunRanks(2, [](Rank& self) { GatherRounds(self.comm, self.rank, 2, &self.stream, 2); });
  EXPECT_NE(rig.shim().Report().find("everything passed through: CINCH_POLICY=raw"),
            std::string::npos)
      << rig.shim().Report();
}

}  // namespace
}  // namespace cinch::testing
