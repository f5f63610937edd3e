// SPDX-License-Identifier: Apache-2.0
#include "collectives/key_history.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "collectives/slot_check.h"

namespace cinch::collectives {
namespace {

/// Takes `count` operations, answering each carrier at once.
Decision RunOperations(KeyHistory* history, uint64_t count, uint64_t ratio,
                       std::deque<KeyRecord>* records) {
  uint64_t next = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const Ticket ticket = history->Take();
    next = ticket.index + 1;
    EXPECT_TRUE(history->Ready(ticket.index));
    if (!history->IsCarrier(ticket.index)) continue;
    KeyRecord& record = records->emplace_back();
    record = {1, 0, ratio, history->raw_nanoseconds(), history->compressed_nanoseconds()};
    history->Attach(ticket, &record, nullptr);
  }
  return history->decision(next);
}

/// Plain is faster.
void AddTimings(KeyHistory* history) {
  for (int i = 0; i < 8; ++i) {
    history->AddTiming(false, 1e-3, 1 << 20);
    history->AddTiming(true, 2e-3, 1 << 20);
  }
}

TEST(KeyHistory, OneSlowTimingSaysNothing) {
  KeyHistory history(PolicyMode::kAuto);
  std::deque<KeyRecord> records;
  for (int i = 0; i < 4; ++i) history.AddTiming(false, 1e-3, 1 << 20);
  history.AddTiming(true, 1, 1 << 20);
  EXPECT_TRUE(RunOperations(&history, 20, kRatioOne / 2, &records).compressed);
}

TEST(KeyHistory, StartsPlainAndCompressesOnceTheRatioIsKnown) {
  KeyHistory history(PolicyMode::kAuto);
  std::deque<KeyRecord> records;
  EXPECT_FALSE(history.decision(0).compressed);
  const Decision decision = RunOperations(&history, 5, kRatioOne * 2 / 3, &records);
  EXPECT_TRUE(decision.compressed);
  // With a margin, as little is known.
  EXPECT_GE(decision.ratio, kRatioOne * 2 / 3);
  EXPECT_LE(decision.ratio, kRatioOne * 2 / 3 + kRatioOne / 20);
}

TEST(KeyHistory, LeavesIncompressibleDataPlain) {
  KeyHistory history(PolicyMode::kAuto);
  std::deque<KeyRecord> records;
  EXPECT_FALSE(RunOperations(&history, 1000, kRatioOne, &records).compressed);
}

TEST(KeyHistory, GoesBackToPlainWhenThatWasFaster) {
  KeyHistory history(PolicyMode::kAuto);
  std::deque<KeyRecord> records;
  AddTimings(&history);
  EXPECT_FALSE(RunOperations(&history, 20, kRatioOne / 2, &records).compressed);
}

TEST(KeyHistory, TriesAgainWhatWasSlower) {
  KeyHistory history(PolicyMode::kAuto);
  std::deque<KeyRecord> records;
  AddTimings(&history);
  bool compressed_later = false;
  for (int i = 0; i < 2000; ++i) {
    if (RunOperations(&history, 1, kRatioOne / 2, &records).compressed && i > 100)
      compressed_later = true;
  }
  EXPECT_TRUE(compressed_later);
}

/// Runs operations that take a unit of time plain and `factor` compressed; the hosts are `ahead`
/// operations ahead of what they time. Returns how many of the operations from `from` on were
/// compressed.
uint64_t CountCompressed(uint64_t count, uint64_t from, uint64_t ratio, double factor,
                         uint64_t ahead) {
  KeyHistory history(PolicyMode::kAuto);
  std::deque<KeyRecord> records;
  std::deque<bool> forms;
  std::deque<bool> timed;
  uint64_t compressed = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const Ticket ticket = history.Take();
    EXPECT_TRUE(history.Ready(i));
    forms.push_back(history.decision(i).compressed);
    timed.push_back(history.IsTimed(i));
    if (i >= from && forms.back()) ++compressed;
    if (history.IsCarrier(i)) {
      KeyRecord& record = records.emplace_back();
      record = {1, 0, ratio, history.raw_nanoseconds(), history.compressed_nanoseconds()};
      history.Attach(ticket, &record, nullptr);
    }
    if (i < ahead || !timed[i - ahead]) continue;
    const bool form = forms[i - ahead];
    history.AddTiming(form, form ? 1e-3 * factor : 1e-3, 1 << 20);
  }
  return compressed;
}

TEST(KeyHistory, TriesWhatKeepsMuchOnAFewOperationsOnly) {
  for (const uint64_t ahead : {0U, 3U, 8U}) {
    SCOPED_TRACE(ahead);
    EXPECT_LE(CountCompressed(64, 0, kRatioOne * 5 / 6, 1.1, ahead), 6U);
    // With the trials of later: less than three in a hundred.
    EXPECT_LE(CountCompressed(3000, 0, kRatioOne * 5 / 6, 1.1, ahead), 90U);
  }
}

TEST(KeyHistory, CompressesWhatKeepsMuchOnceTheTrialGained) {
  for (const uint64_t ahead : {0U, 3U, 8U}) {
    SCOPED_TRACE(ahead);
    EXPECT_EQ(CountCompressed(300, 40, kRatioOne * 5 / 6, 0.9, ahead), 260U);
  }
}

TEST(KeyHistory, ATieIsNoGain) {
  EXPECT_EQ(CountCompressed(250, 40, kRatioOne * 5 / 6, 0.99, 0), 0U);
  EXPECT_EQ(CountCompressed(250, 40, kRatioOne / 2, 0.99, 0), 0U);
}

TEST(KeyHistory, WhatKeepsLittleIsCompressedUntilItIsKnownToLose) {
  EXPECT_EQ(CountCompressed(300, 4, kRatioOne * 2 / 3, 0.7, 0), 296U);
  EXPECT_EQ(CountCompressed(250, 40, kRatioOne * 2 / 3, 1.2, 0), 0U);
}

TEST(KeyHistory, PinnedCompressesFromTheStartInSlotsForEverything) {
  KeyHistory history(PolicyMode::kCompressed);
  EXPECT_TRUE(history.decision(0).compressed);
  EXPECT_GE(history.decision(0).ratio, kRatioOne);
  std::deque<KeyRecord> records;
  EXPECT_TRUE(RunOperations(&history, 500, kRatioOne, &records).compressed);
}

TEST(KeyHistory, IsNotReadyBeforeTheRecordIs) {
  KeyHistory history(PolicyMode::kAuto);
  KeyRecord record{};
  const Ticket first = history.Take();
  history.Attach(first, &record, nullptr);
  const uint64_t counts_from = KeyHistory::CountsFrom(first.index);
  for (uint64_t index = 1; index < counts_from; ++index) EXPECT_TRUE(history.Ready(index));
  EXPECT_FALSE(history.Ready(counts_from));
  record.ratio = kRatioOne / 2;
  record.ready = 1;
  EXPECT_TRUE(history.Ready(counts_from));
  EXPECT_EQ(history.TakeUsedRecord(), &record);
  EXPECT_EQ(history.TakeUsedRecord(), nullptr);
}

TEST(KeyHistory, WaitsForBothRecords) {
  KeyHistory history(PolicyMode::kAuto);
  KeyRecord first{1, 0, kRatioOne / 2, 0, 0};
  KeyRecord second{};
  history.Attach(history.Take(), &first, &second);
  EXPECT_FALSE(history.Ready(KeyHistory::CountsFrom(0)));
  second = {1, 0, kRatioOne / 4 * 3, 0, 0};
  EXPECT_TRUE(history.Ready(KeyHistory::CountsFrom(0)));
  EXPECT_GE(history.decision(history.Take().index).ratio, kRatioOne / 4 * 3);
}

// What a rank decides must not depend on when it looks: one asks at once, the other as late as it
// can.
TEST(KeyHistory, DecidesAlikeHoweverLateItLearns) {
  std::mt19937 random(7);
  KeyHistory eager(PolicyMode::kAuto);
  KeyHistory late(PolicyMode::kAuto);
  struct Carrier {
    uint64_t index;
    KeyRecord eager;
    KeyRecord late;
  };
  std::deque<Carrier> carriers;
  size_t told = 0;
  for (int i = 0; i < 3000; ++i) {
    const Ticket ticket = eager.Take();
    ASSERT_EQ(late.Take().index, ticket.index);
    ASSERT_TRUE(eager.Ready(ticket.index));
    while (told < carriers.size() && KeyHistory::CountsFrom(carriers[told].index) <= ticket.index) {
      carriers[told].late = carriers[told].eager;
      ++told;
    }
    ASSERT_TRUE(late.Ready(ticket.index));
    ASSERT_EQ(eager.decision(ticket.index).compressed, late.decision(ticket.index).compressed) << i;
    ASSERT_EQ(eager.decision(ticket.index).ratio, late.decision(ticket.index).ratio) << i;
    ASSERT_EQ(eager.IsCarrier(ticket.index), late.IsCarrier(ticket.index));
    if (!eager.IsCarrier(ticket.index)) continue;
    Carrier& carrier = carriers.emplace_back();
    carrier.index = ticket.index;
    carrier.eager = {1, 0, random() % kRatioOne, random() % 3, random() % 3};
    eager.Attach(ticket, &carrier.eager, nullptr);
    late.Attach(ticket, &carrier.late, nullptr);
  }
}

TEST(KeyHistory, CarriersCountInTheirOrder) {
  for (uint64_t index = 0; index < 1000; ++index) {
    EXPECT_GT(KeyHistory::CountsFrom(index), index);
    EXPECT_GT(KeyHistory::CountsFrom(index + 1), KeyHistory::CountsFrom(index));
  }
}

TEST(KeyHistory, RareMisfitsDoNotMakeSlotsLarge) {
  KeyHistory history(PolicyMode::kAuto);
  std::deque<KeyRecord> records;
  for (int i = 0; i < 300; ++i) {
    RunOperations(&history, 1, i % 32 == 0 ? kRatioOne : kRatioOne / 2, &records);
  }
  EXPECT_TRUE(history.decision(history.Take().index).compressed);
  EXPECT_EQ(history.decision(history.Take().index).ratio, kRatioOne / 2);
}

TEST(KeyHistory, FrequentMisfitsMakeSlotsLarger) {
  KeyHistory history(PolicyMode::kAuto);
  std::deque<KeyRecord> records;
  for (int i = 0; i < 300; ++i) {
    RunOperations(&history, 1, i % 3 == 0 ? kRatioOne / 4 * 3 : kRatioOne / 2, &records);
  }
  EXPECT_TRUE(history.decision(history.Take().index).compressed);
  EXPECT_EQ(history.decision(history.Take().index).ratio, kRatioOne / 4 * 3);
}

TEST(KeyHistory, ALiesRatioIsNoLargerThanAnyFrames) {
  for (const uint64_t ratio : {~uint64_t{0}, uint64_t{1} << 60, kMaxRatio + 1}) {
    for (const PolicyMode mode : {PolicyMode::kAuto, PolicyMode::kCompressed}) {
      KeyHistory history(mode);
      std::deque<KeyRecord> records;
      for (int i = 0; i < 10; ++i) {
        const Decision decision = RunOperations(&history, 5, ratio, &records);
        EXPECT_LE(decision.ratio, kMaxRatio + kMaxRatio / 32);
        EXPECT_EQ(decision.compressed, mode == PolicyMode::kCompressed);
      }
    }
  }
}

TEST(SlotCheck, HeadersAreJudgedBeforeTheyAreBelieved) {
  constexpr uint64_t kBytes = 100000;
  SlotHeader header{};
  header.magic = kSlotMagic;
  header.version = kSlotVersion;
  header.original_bytes = kBytes;
  header.frame_bytes = format::FrameBound(kBytes);
  EXPECT_TRUE(IsSane(header, kBytes));
  EXPECT_FALSE(IsSane(header, kBytes - 1));
  EXPECT_EQ(MissingBytes(header, sizeof(header) + header.frame_bytes), 0U);
  EXPECT_EQ(MissingBytes(header, sizeof(header) + header.frame_bytes - 5), 5U);
  EXPECT_EQ(MissingBytes(header, sizeof(header)), header.frame_bytes);
  ++header.frame_bytes;
  EXPECT_FALSE(IsSane(header, kBytes));
}

}  // namespace
}  // namespace cinch::collectives
