// SPDX-License-Identifier: Apache-2.0
// Which operations go over peer memory, and that all ranks agree about it, on doubles.
#include "collectives/peer_path.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>

#include "collectives/communicator.h"
#include "collectives/float_math.h"
#include "collectives/ranks.h"

namespace cinch::testing {
namespace {

using collectives::Kind;
using collectives::kNcclAverage;
using collectives::kNcclBfloat16;
using collectives::kNcclFloat16;
using collectives::kNcclFloat32;
using collectives::kNcclSuccess;
using collectives::kNcclSum;
using collectives::kNcclSystemError;
using collectives::Operation;
using collectives::PeerMeeting;
using collectives::PeerPath;

constexpr size_t kElements = 20000;
using Bf16 = std::vector<uint16_t>;

struct PathLog {
  std::atomic<int> opened{0};
  std::atomic<int> enqueued{0};
  std::atomic<int> aborted{0};
  std::atomic<cinch_status> state{CINCH_OK};
};

/// Moves bytes by the double of NCCL. Takes all-gathers and reductions of bf16.
class FakePath final : public PeerPath {
 public:
  explicit FakePath(PathLog* log) : log_(log) {}
  [[nodiscard]] bool Takes(const Operation& operation) const override {
    return operation.dtype == kNcclBfloat16 && operation.count >= kElements &&
           (operation.kind == Kind::kAllGather || operation.kind == Kind::kAllReduce);
  }
  Status Enqueue(const Operation& operation) override {
    log_->enqueued.fetch_add(1);
    return collectives::CallNccl(operation.comm->api(), operation.comm->nccl(), operation) ==
                   kNcclSuccess
               ? CINCH_OK
               : CINCH_ERROR_DEVICE;
  }
  Status Check() override { return log_->state.load(); }
  void Abort() override { log_->aborted.fetch_add(1); }

 private:
  PathLog* log_;
};

/// A maker whose ranks meet, and of which rank `failing` (-1: none) fails.
collectives::PeerPathMaker MakerOf(PathLog* log, int failing = -1) {
  return [log, failing](const PeerMeeting& meeting) -> std::unique_ptr<PeerPath> {
    const int own = 100 + meeting.rank;
    std::vector<int> all(static_cast<size_t>(meeting.ranks));
    EXPECT_EQ(meeting.all_gather(meeting.context, &own, all.data(), sizeof(int)), 0);
    for (int rank = 0; rank < meeting.ranks; ++rank) {
      EXPECT_EQ(all[static_cast<size_t>(rank)], 100 + rank);
    }
    if (meeting.rank == failing) return nullptr;
    log->opened.fetch_add(1);
    return std::make_unique<FakePath>(log);
  };
}

Bf16 MakeData(int rank, int round) {
  std::mt19937 random(static_cast<uint32_t>(rank * 7919 + round + 1));
  std::normal_distribution<float> normal(0, 0.02F);
  Bf16 data(kElements);
  for (uint16_t& value : data) value = ToBf16(normal(random));
  return data;
}

void GatherOnce(Rank& self, int round) {
  const Bf16 mine = MakeData(self.rank, round);
  Bf16 all(static_cast<size_t>(self.ranks) * kElements);
  ASSERT_EQ(
      ncclAllGather(mine.data(), all.data(), kElements, kNcclBfloat16, self.comm, &self.stream),
      kNcclSuccess);
  self.stream.Synchronize();
  for (int rank = 0; rank < self.ranks; ++rank) {
    const Bf16 expected = MakeData(rank, round);
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(),
                           all.begin() + rank * static_cast<std::ptrdiff_t>(kElements)));
  }
}

TEST(PeerPaths, TakeWhatTheyAreFor) {
  PathLog log;
  Rig rig(PolicyMode::kAuto, 4096, 0, MakerOf(&log));
  RunRanks(3, [](Rank& self) {
    for (int round = 0; round < 6; ++round) {
      GatherOnce(self, round);
      // fp16 does not; it is compressed after a while.
      Bf16 data = MakeData(self.rank, round);
      ASSERT_EQ(ncclBroadcast(data.data(), data.data(), kElements, kNcclFloat16, 0, self.comm,
                              &self.stream),
                kNcclSuccess);
      self.stream.Synchronize();
      ASSERT_EQ(data, MakeData(0, round));
    }
  });
  EXPECT_EQ(log.opened.load(), 3);
  EXPECT_EQ(log.enqueued.load(), 18);
  EXPECT_NE(rig.shim().Report().find("6 operations went over peer memory"), std::string::npos);
}

TEST(PeerPaths, AreNotOpenUnlessEveryRankHasOne) {
  PathLog log;
  Rig rig(PolicyMode::kAuto, 4096, 0, MakerOf(&log, 1));
  RunRanks(3, [](Rank& self) {
    for (int round = 0; round < 6; ++round) GatherOnce(self, round);
  });
  EXPECT_EQ(log.opened.load(), 2);
  EXPECT_EQ(log.enqueued.load(), 0);
}

TEST(PeerPaths, AreOffByDefault) {
  PathLog log;
  Rig rig(PolicyMode::kAuto, 4096);
  RunRanks(2, [](Rank& self) { GatherOnce(self, 0); });
  EXPECT_EQ(rig.shim().Report().find("over peer memory"), std::string::npos);
}

TEST(PeerPaths, TakeTheirPartOfAGroup) {
  PathLog log;
  Rig rig(PolicyMode::kAuto, 4096, 0, MakerOf(&log));
  RunRanks(2, [&](Rank& self) {
    for (int round = 0; round < 8; ++round) {
      const Bf16 mine = MakeData(self.rank, round);
      Bf16 all(2 * kElements);
      Bf16 other(kElements);
      // One rank groups, the other does not: the gather goes over peer memory all the same.
      const bool groups = round % 2 == self.rank;
      if (groups) {
        ASSERT_EQ(ncclGroupStart(), kNcclSuccess);
      }
      ASSERT_EQ(
          ncclAllGather(mine.data(), all.data(), kElements, kNcclBfloat16, self.comm, &self.stream),
          kNcclSuccess);
      if (groups) {
        ASSERT_EQ(ncclGroupEnd(), kNcclSuccess);
      }
      ASSERT_EQ(ncclGroupStart(), kNcclSuccess);
      ASSERT_EQ(
          ncclSend(mine.data(), kElements, kNcclBfloat16, 1 - self.rank, self.comm, &self.stream),
          kNcclSuccess);
      ASSERT_EQ(
          ncclRecv(other.data(), kElements, kNcclBfloat16, 1 - self.rank, self.comm, &self.stream),
          kNcclSuccess);
      ASSERT_EQ(ncclGroupEnd(), kNcclSuccess);
      self.stream.Synchronize();
      const Bf16 expected = MakeData(1 - self.rank, round);
      ASSERT_EQ(other, expected);
      ASSERT_TRUE(
          std::equal(expected.begin(), expected.end(),
                     all.begin() + (1 - self.rank) * static_cast<std::ptrdiff_t>(kElements)));
    }
  });
  EXPECT_EQ(log.enqueued.load(), 16);
}

TEST(PeerPaths, LeaveCapturedStreamsToNccl) {
  PathLog log;
  Rig rig(PolicyMode::kAuto, 4096, 0, MakerOf(&log));
  rig.device().capturing = true;
  RunRanks(2, [](Rank& self) { GatherOnce(self, 0); });
  EXPECT_EQ(log.enqueued.load(), 0);
}

TEST(PeerPaths, ReportWhatTheirKernelsGaveUpFor) {
  PathLog log;
  Rig rig(PolicyMode::kAuto, 4096, 0, MakerOf(&log));
  RunRanks(2, [&](Rank& self) {
    GatherOnce(self, 0);
    log.state.store(CINCH_ERROR_TIMEOUT);
    int error = kNcclSuccess;
    ASSERT_EQ(ncclCommGetAsyncError(self.comm, &error), kNcclSuccess);
    EXPECT_EQ(error, kNcclSystemError);
    Bf16 all(2 * kElements);
    EXPECT_NE(
        ncclAllGather(all.data(), all.data(), kElements, kNcclBfloat16, self.comm, &self.stream),
        kNcclSuccess);
    ASSERT_EQ(ncclCommAbort(self.comm), kNcclSuccess);
    self.comm = nullptr;
  });
  EXPECT_EQ(log.aborted.load(), 2);
}

Operation Op(Kind kind, size_t count, int dtype = kNcclBfloat16, int reduction = kNcclSum) {
  Operation operation;
  operation.kind = kind;
  operation.count = count;
  operation.dtype = dtype;
  operation.reduction = reduction;
  return operation;
}

TEST(FusedPays, IsForWhatWasMeasuredToGain) {
  constexpr size_t kMega = size_t{1} << 20;
  EXPECT_TRUE(FusedPays(Op(Kind::kAllGather, 8 * kMega), 2));
  EXPECT_FALSE(FusedPays(Op(Kind::kAllGather, 8 * kMega - 1), 2));
  EXPECT_TRUE(FusedPays(Op(Kind::kReduceScatter, 4 * kMega), 4));
  EXPECT_FALSE(FusedPays(Op(Kind::kReduceScatter, 4 * kMega - 1), 4));
  EXPECT_FALSE(FusedPays(Op(Kind::kAllReduce, 512 * kMega), 2));
  EXPECT_FALSE(FusedPays(Op(Kind::kAllToAll, 512 * kMega), 2));
  EXPECT_FALSE(FusedPays(Op(Kind::kSend, 512 * kMega), 2));
  EXPECT_FALSE(FusedPays(Op(Kind::kBroadcast, 512 * kMega), 2));
}

TEST(FusedPays, LeavesTheRestToNccl) {
  constexpr size_t kMany = size_t{64} << 20;
  const int others[] = {kNcclFloat16, kNcclFloat32, collectives::kNcclUint8};
  for (const int dtype : others) {
    EXPECT_FALSE(FusedPays(Op(Kind::kAllGather, kMany, dtype), 2));
  }
  EXPECT_FALSE(FusedPays(Op(Kind::kReduceScatter, kMany, kNcclBfloat16, kNcclAverage), 2));
  EXPECT_FALSE(FusedPays(Op(Kind::kAllGather, kMany), 17));
  EXPECT_FALSE(FusedPays(Op(Kind::kAllGather, kMany), 1));
}

}  // namespace
}  // namespace cinch::testing
