// SPDX-License-Identifier: Apache-2.0
/// The channels' state machine without a GPU: flags, credits, wrap-around, and that no order of
/// events stops the ranks.
#include "collectives/fused/protocol.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace cinch::fused {
namespace {

TEST(FusedProtocolTest, FlagsKeepWhatTheySay) {
  for (const uint32_t number : {0U, 1U, 77U, 0x7FFFFFFFU, 0xFFFFFFFEU, 0xFFFFFFFFU}) {
    for (const uint32_t bytes : {1U, 2047U, 2048U, 8192U}) {
      for (const uint32_t escapes : {0U, 1U, kMaxEscapes, UnitForm::kRaw}) {
        for (const uint32_t start : {0U, 117U, kMaxWindowStart}) {
          const uint64_t flag = PackFlag(number, {bytes, escapes, start});
          const UnitForm form = FormOf(flag);
          EXPECT_EQ(form.bytes, bytes);
          EXPECT_EQ(form.escapes, escapes);
          EXPECT_EQ(form.window_start, start);
          EXPECT_TRUE(HasArrived(flag, number));
          EXPECT_FALSE(HasArrived(flag, number + 1));
          EXPECT_FALSE(HasArrived(flag, number - 4));
        }
      }
    }
  }
  EXPECT_FALSE(HasArrived(0, 0)) << "a zeroed window has no unit 0";
}

TEST(FusedProtocolTest, OnlySoundFormsAreDecoded) {
  EXPECT_TRUE(IsSound({8192, kMaxEscapes, kMaxWindowStart}, 8192));
  EXPECT_TRUE(IsSound({1, UnitForm::kRaw, 255}, 1));
  EXPECT_FALSE(IsSound({8192, 0, 0}, 8190)) << "another length than expected";
  EXPECT_FALSE(IsSound({8192, kMaxEscapes + 1, 0}, 8192));
  EXPECT_FALSE(IsSound({2048, kTileEscapes + 1, 0}, 2048)) << "more than a small slot holds";
  EXPECT_FALSE(IsSound({8192, 0, kMaxWindowStart + 1}, 8192));
  EXPECT_FALSE(IsSound({2047, 0, 0}, 2047)) << "no whole tiles";
  // Whatever the bits, what is called sound stays inside the slot.
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    const UnitForm form = FormOf(random());
    if (!IsSound(form, form.bytes) || form.raw()) continue;
    EXPECT_LE(EscapeOffset(form.bytes / kTileBytes) + form.escapes, kSlotBytes);
  }
}

/// A ring between one sender and one receiver, in any order of their steps.
void RunRing(uint32_t first, uint32_t slots, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint64_t> flags(slots, PackFlag(first - 1 - slots, {1, 0, 0}));
  std::vector<uint32_t> data(slots, 0);
  uint32_t sent = first;
  uint32_t received = first;
  uint32_t credit = first;
  uint32_t seen_credit = first;  // The sender's last look.
  for (int step = 0; step < 2000; ++step) {
    switch (random() % 4) {
      case 0:
        seen_credit = credit;
        break;
      case 1:
        if (!MaySend(sent, seen_credit, slots)) break;
        ASSERT_LT(sent - received, slots) << "a slot in use is overwritten";
        data[SlotOf(sent, slots)] = sent;
        flags[SlotOf(sent, slots)] = PackFlag(sent, {2048, 5, 9});
        ++sent;
        break;
      case 2:
        if (!HasArrived(flags[SlotOf(received, slots)], received)) {
          ASSERT_EQ(received, sent) << "a unit that was sent is not seen";
          break;
        }
        ASSERT_NE(received, sent);
        ASSERT_EQ(data[SlotOf(received, slots)], received);
        ++received;
        break;
      default:
        credit = received;
    }
  }
  EXPECT_GT(sent - first, 100U);
}

TEST(FusedProtocolTest, ARingNeverOverwritesAndNeverMisses) {
  for (const uint32_t slots : {1U, 2U, 4U}) {
    for (const uint32_t first : {0U, 1000U, 0xFFFFFFF0U, 0x7FFFFFF0U}) {
      for (uint64_t seed = 0; seed < 20; ++seed) {
        RunRing(first, slots, seed);
        if (HasFatalFailure()) return;
      }
    }
  }
}

/// All warps of one channel of all ranks, as kernels.cuh orders their work.
class Ranks {
 public:
  Ranks(uint32_t ranks, uint32_t slots, uint32_t teams, uint64_t seed)
      : random_(seed), ranks_(ranks), slots_(slots), teams_(teams) {
    units_.resize(ranks * ranks);
    for (uint32_t& units : units_) units = static_cast<uint32_t>(random_() % 12);
    sent_.resize(ranks * ranks);
    received_.resize(ranks * ranks);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      MakeSender(rank);
      for (uint32_t team = 0; team < teams; ++team) MakeReceiver(rank, team);
    }
  }

  /// Runs warps in random order; false when all that are not done wait.
  bool Finish() {
    while (true) {
      std::shuffle(warps_.begin(), warps_.end(), random_);
      bool moved = false;
      bool waiting = false;
      for (Warp& warp : warps_) {
        // A few steps of one warp before the next one's.
        for (uint64_t steps = random_() % 4; steps > 0 && !warp.work.empty(); --steps) {
          if (!TryStep(&warp)) break;
          moved = true;
        }
        waiting = waiting || !warp.work.empty();
      }
      if (!waiting) return true;
      if (!moved && !AnyCanMove()) return false;
    }
  }

 private:
  struct Warp {
    bool sends;
    uint32_t rank;
    std::deque<uint32_t> work;  ///< Peers, in order.
  };

  uint32_t Pair(uint32_t from, uint32_t to) const { return from * ranks_ + to; }

  void MakeSender(uint32_t rank) {
    Warp warp{true, rank, {}};
    for (uint32_t unit = 0; unit < 12; ++unit) {
      for (uint32_t lane = 0; lane + 1 < ranks_; ++lane) {
        const uint32_t to = (rank + 1 + lane) % ranks_;
        if (unit < units_[Pair(rank, to)]) warp.work.push_back(to);
      }
    }
    warps_.push_back(warp);
  }
  void MakeReceiver(uint32_t rank, uint32_t team) {
    Warp warp{false, rank, {}};
    for (uint32_t unit = 0; unit < 12; ++unit) {
      for (uint32_t lane = team; lane + 1 < ranks_; lane += teams_) {
        const uint32_t from = (rank + ranks_ - 1 - lane) % ranks_;
        if (unit < units_[Pair(from, rank)]) warp.work.push_back(from);
      }
    }
    warps_.push_back(warp);
  }

  bool CanStep(const Warp& warp) const {
    if (warp.work.empty()) return false;
    const uint32_t pair =
        warp.sends ? Pair(warp.rank, warp.work.front()) : Pair(warp.work.front(), warp.rank);
    return warp.sends ? MaySend(sent_[pair], received_[pair], slots_)
                      : received_[pair] != sent_[pair];
  }
  bool TryStep(Warp* warp) {
    if (!CanStep(*warp)) return false;
    if (warp->sends) {
      ++sent_[Pair(warp->rank, warp->work.front())];
    } else {
      ++received_[Pair(warp->work.front(), warp->rank)];
    }
    warp->work.pop_front();
    return true;
  }
  bool AnyCanMove() const {
    return std::any_of(warps_.begin(), warps_.end(),
                       [&](const Warp& warp) { return CanStep(warp); });
  }

  std::mt19937_64 random_;
  uint32_t ranks_;
  uint32_t slots_;
  uint32_t teams_;
  std::vector<uint32_t> units_;
  std::vector<uint32_t> sent_;
  std::vector<uint32_t> received_;
  std::vector<Warp> warps_;
};

TEST(FusedProtocolTest, RanksNeverWaitInACircle) {
  for (const uint32_t ranks : {2U, 3U, 4U, 8U}) {
    for (const uint32_t slots : {1U, 2U, 4U}) {
      for (const uint32_t teams : {1U, 3U}) {
        for (uint64_t seed = 0; seed < 50; ++seed) {
          ASSERT_TRUE(Ranks(ranks, slots, teams, seed).Finish())
              << ranks << " ranks, " << slots << " slots, seed " << seed;
        }
      }
    }
  }
}

TEST(FusedProtocolTest, MessagesAreCutWithoutGaps) {
  for (const uint32_t channels : {1U, 128U, 1024U}) {
    for (const uint64_t bytes :
         {uint64_t{1}, uint64_t{2047}, uint64_t{2048}, uint64_t{1000001}, uint64_t{1} << 33}) {
      const uint32_t unit_bytes = UnitBytes(bytes, channels);
      EXPECT_EQ(unit_bytes % kTileBytes, 0U);
      EXPECT_LE(unit_bytes, kSlotBytes);
      const uint64_t units = UnitCount(bytes, unit_bytes);
      EXPECT_EQ((units - 1) * unit_bytes + LengthOfUnit(bytes, unit_bytes, units - 1), bytes);
    }
  }
  EXPECT_EQ(UnitCount(0, kTileBytes), 0U);
  for (const uint64_t bytes : {0, 1, 4096, 50002, 1048576}) {
    uint64_t at = 0;
    for (uint32_t rank = 0; rank < 8; ++rank) {
      const Share share = ShareOfRank(bytes, 8, rank);
      EXPECT_EQ(share.begin, at);
      EXPECT_TRUE(share.begin % kTileBytes == 0 || share.begin == bytes);
      at = share.end;
    }
    EXPECT_EQ(at, bytes);
  }
}

TEST(FusedProtocolTest, PartsOfAWindowDoNotOverlap) {
  const WindowLayout layout{4, 3, 2};
  std::set<std::pair<uint64_t, uint64_t>> parts{{0, WindowLayout::kControlBytes}};
  size_t count = 1;
  for (uint32_t peer = 0; peer < 4; ++peer) {
    if (peer == 2) continue;
    for (uint32_t channel = 0; channel < 3; ++channel) {
      parts.insert({layout.SentOffset(2, peer, channel), 4});
      parts.insert({layout.ReceivedOffset(2, peer, channel), 4});
      parts.insert({layout.CreditOffset(2, peer, channel), 4});
      parts.insert({layout.FlagOffset(2, peer, channel), 16});
      parts.insert({layout.SlotOffset(2, peer, channel), 2 * kSlotBytes});
      count += 5;
    }
  }
  EXPECT_EQ(parts.size(), count);
  uint64_t end = 0;
  for (const auto& [offset, bytes] : parts) {
    EXPECT_GE(offset, end);
    end = offset + bytes;
  }
  EXPECT_LE(end, layout.Bytes());
}

}  // namespace
}  // namespace cinch::fused
