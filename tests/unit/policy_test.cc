// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "policy/cost_model.h"
#include "policy/message_policy.h"

namespace cinch::policy {
namespace {

constexpr uint64_t kMegabyte = uint64_t{1} << 20;
constexpr double kGigabyte = 1e9;
constexpr uint64_t kFirstSegment = uint64_t{64} << 10;

constexpr PolicyOptions kOneThread{1, 1, kFirstSegment};

CostInputs Inputs(double link, double codec, double kept = 0.67, uint64_t bytes = 64 * kMegabyte) {
  CostInputs inputs;
  inputs.message_bytes = bytes;
  inputs.kept_fraction = kept;
  inputs.link_bytes_per_second = link;
  inputs.encode_bytes_per_second = codec;
  inputs.decode_bytes_per_second = codec;
  inputs.first_segment_bytes = kFirstSegment;
  inputs.last_segment_bytes = kFirstSegment;
  return inputs;
}

TEST(CostModel, TheSlowestStageCounts) {
  const CostEstimate slow_link = EstimateCost(Inputs(0.25 * kGigabyte, 4 * kGigabyte));
  EXPECT_NEAR(slow_link.raw_seconds, 64 * kMegabyte / (0.25 * kGigabyte), 1e-9);
  EXPECT_NEAR(slow_link.compressed_seconds / slow_link.raw_seconds, 0.67, 0.005);
  EXPECT_TRUE(PrefersCompression(slow_link));

  const CostEstimate fast_link = EstimateCost(Inputs(50 * kGigabyte, 4 * kGigabyte));
  EXPECT_GE(fast_link.compressed_seconds, 64 * kMegabyte / (4 * kGigabyte));
  EXPECT_FALSE(PrefersCompression(fast_link));
}

TEST(CostModel, SmallMessagesPayForTheHandOff) {
  const auto prefers = [](uint64_t bytes) {
    return PrefersCompression(EstimateCost(Inputs(1 * kGigabyte, 4 * kGigabyte, 0.67, bytes)));
  };
  EXPECT_FALSE(prefers(8));
  EXPECT_FALSE(prefers(16 << 10));
  EXPECT_TRUE(prefers(kMegabyte));
  // Once it pays it pays for everything larger.
  bool paid = false;
  for (uint64_t bytes = 1024; bytes < 1024 * kMegabyte; bytes *= 2) {
    if (paid) {
      EXPECT_TRUE(prefers(bytes)) << bytes;
    }
    paid |= prefers(bytes);
  }
}

TEST(CostModel, IncompressibleDataNeverPay) {
  EXPECT_FALSE(PrefersCompression(EstimateCost(Inputs(1e6, 4 * kGigabyte, 1.0))));
  EXPECT_FALSE(PrefersCompression(EstimateCost(Inputs(1e6, 4 * kGigabyte, 0.98))));
  EXPECT_TRUE(PrefersCompression(EstimateCost(Inputs(1e6, 4 * kGigabyte, 0.9))));
}

TEST(CostModel, KnowsWhatLimits) {
  EXPECT_TRUE(CodecIsBottleneck(Inputs(10 * kGigabyte, 2 * kGigabyte)));
  EXPECT_FALSE(CodecIsBottleneck(Inputs(0.25 * kGigabyte, 2 * kGigabyte)));
}

TEST(RateEstimator, FollowsTheRateByBytes) {
  RateEstimator rate(16 * kMegabyte);
  EXPECT_FALSE(rate.known());
  EXPECT_EQ(rate.bytes_per_second(), 0);
  rate.Add(0, 1);
  rate.Add(5, 0);
  rate.Add(5, -1);
  EXPECT_FALSE(rate.known());
  rate.Add(kMegabyte, 1e-3);
  EXPECT_NEAR(rate.bytes_per_second(), kMegabyte * 1e3, 1);
  for (int i = 0; i < 200; ++i) rate.Add(kMegabyte, 2e-3);
  EXPECT_NEAR(rate.bytes_per_second(), kMegabyte * 500, kMegabyte);
  rate.Add(64, 1);  // One late straggler does not count like a megabyte would,
  EXPECT_GT(rate.bytes_per_second(), kMegabyte * 10);
}

TEST(RateEstimator, AnAssumptionOutweighsAnOddFirstSample) {
  RateEstimator rate(64 * kMegabyte);
  rate.Assume(2 * kGigabyte, 4 * kMegabyte);
  EXPECT_TRUE(rate.known());
  rate.Add(65536, 65536 / (0.1 * kGigabyte));
  EXPECT_GT(rate.bytes_per_second(), 1.5 * kGigabyte);
  for (int i = 0; i < 300; ++i) rate.Add(kMegabyte, kMegabyte / (8 * kGigabyte));
  EXPECT_NEAR(rate.bytes_per_second(), 8 * kGigabyte, 0.1 * kGigabyte);
}

TEST(LinkEstimator, CompressedSegmentsAreALowerBound) {
  LinkEstimator link;
  link.AddRaw(10 * kMegabyte, 1e-3);
  link.AddCompressed(10 * kMegabyte, 1e-2);
  EXPECT_NEAR(link.bytes_per_second(), 10 * kMegabyte * 1e3, 1);
  link.AddCompressed(1000 * kMegabyte, 1e-2);
  EXPECT_GT(link.bytes_per_second(), 10 * kMegabyte * 1e3);
}

TEST(LinkEstimator, IsNotKnownFromCompressedOrFewBytes) {
  LinkEstimator link;
  link.AddCompressed(100 * kMegabyte, 1e-2);
  EXPECT_FALSE(link.known());
  link.AddRaw(LinkEstimator::kMinRawBytes - 1, 1e-3);
  EXPECT_FALSE(link.known());
  link.AddRaw(1, 1e-6);
  EXPECT_TRUE(link.known());
}

TEST(RatioMemory, RemembersByDtypeSizeAndName) {
  RatioMemory memory;
  const RatioKey key = MakeRatioKey(CINCH_DTYPE_BF16, 10 * kMegabyte, "q_proj");
  EXPECT_FALSE(memory.Predict(key).has_value());
  memory.Learn(key, 1000, 670);
  EXPECT_NEAR(memory.Predict(key).value(), 0.67, 1e-9);
  EXPECT_TRUE(memory.Predict(MakeRatioKey(CINCH_DTYPE_BF16, 9 * kMegabyte, "q_proj")).has_value());
  for (const RatioKey& other : {MakeRatioKey(CINCH_DTYPE_FP32, 10 * kMegabyte, "q_proj"),
                                MakeRatioKey(CINCH_DTYPE_BF16, 100 * kMegabyte, "q_proj"),
                                MakeRatioKey(CINCH_DTYPE_BF16, 10 * kMegabyte, "k_proj")}) {
    EXPECT_FALSE(memory.Predict(other).has_value());
  }
  for (int i = 0; i < 20; ++i) memory.Learn(key, 1000, 900);
  EXPECT_NEAR(memory.Predict(key).value(), 0.9, 0.01);
}

TEST(RatioMemory, DoubtsWhatItHasNotSeenForLong) {
  RatioMemory memory;
  const RatioKey key = MakeRatioKey(CINCH_DTYPE_BF16, kMegabyte, "");
  memory.Learn(key, 1000, 1000);
  for (uint32_t i = 0; i < RatioMemory::kTrustedUses; ++i) {
    EXPECT_TRUE(memory.Predict(key).has_value());
  }
  EXPECT_FALSE(memory.Predict(key).has_value());
  memory.Learn(key, 1000, 1000);
  EXPECT_TRUE(memory.Predict(key).has_value());
}

TEST(RatioMemory, IsBounded) {
  RatioMemory memory;
  for (size_t i = 0; i < 3 * RatioMemory::kMaxKeys; ++i) {
    memory.Learn(MakeRatioKey(CINCH_DTYPE_BF16, kMegabyte, std::to_string(i)), 100, 50);
  }
  EXPECT_EQ(memory.size(), RatioMemory::kMaxKeys);
  EXPECT_FALSE(memory.Predict(MakeRatioKey(CINCH_DTYPE_BF16, kMegabyte, "0")).has_value());
  EXPECT_TRUE(memory
                  .Predict(MakeRatioKey(CINCH_DTYPE_BF16, kMegabyte,
                                        std::to_string(3 * RatioMemory::kMaxKeys - 1)))
                  .has_value());
}

/// Sends a message segment by segment over a pretended link; returns the compressed fraction.
double Simulate(MessagePolicy& policy, double link, double codec, double kept, Mode mode,
                uint64_t bytes = 64 * kMegabyte) {
  MessagePlan plan = policy.Begin({mode, CINCH_DTYPE_BF16, bytes, "tensor"});
  uint64_t compressed = 0;
  for (uint64_t offset = 0; offset < bytes; offset += kMegabyte) {
    const uint64_t step = std::min(kMegabyte, bytes - offset);
    const bool compress = policy.CompressNext(plan, step, bytes - offset);
    uint64_t wire = step;
    double seconds = static_cast<double>(step) / link;
    if (compress) {
      wire = static_cast<uint64_t>(static_cast<double>(step) * kept);
      policy.OnEncoded(plan, step, wire, static_cast<double>(step) / codec);
      policy.OnPeerDecoded(step, static_cast<double>(step) / codec);
      compressed += step;
      // The wire looks no faster than the codecs feed it.
      seconds = std::max(static_cast<double>(wire) / link, static_cast<double>(step) / codec);
    }
    policy.OnSent(compress, wire, seconds);
  }
  return static_cast<double>(compressed) / static_cast<double>(bytes);
}

TEST(MessagePolicy, CompressesOverASlowLinkOnly) {
  MessagePolicy slow(kOneThread);
  MessagePolicy fast(kOneThread);
  for (int i = 0; i < 5; ++i) {
    Simulate(slow, 0.25 * kGigabyte, 4 * kGigabyte, 0.67, Mode::kAuto);
    Simulate(fast, 20 * kGigabyte, 4 * kGigabyte, 0.67, Mode::kAuto);
  }
  EXPECT_GT(Simulate(slow, 0.25 * kGigabyte, 4 * kGigabyte, 0.67, Mode::kAuto), 0.95);
  EXPECT_LT(Simulate(fast, 20 * kGigabyte, 4 * kGigabyte, 0.67, Mode::kAuto), 0.05);
  EXPECT_GE(slow.counters().compressed_messages, 5u);
  EXPECT_GE(fast.counters().raw_messages, 4u);
  EXPECT_NEAR(slow.link_bytes_per_second(), 0.25 * kGigabyte, 0.03 * kGigabyte);
}

TEST(MessagePolicy, LearnsWithinTheFirstMessage) {
  MessagePolicy policy(kOneThread);
  EXPECT_GT(Simulate(policy, 0.25 * kGigabyte, 4 * kGigabyte, 0.67, Mode::kAuto), 0.9);
}

TEST(MessagePolicy, GivesUpOnIncompressibleData) {
  MessagePolicy policy(kOneThread);
  EXPECT_LT(Simulate(policy, 0.25 * kGigabyte, 4 * kGigabyte, 1.0, Mode::kAuto), 0.1);
  EXPECT_EQ(Simulate(policy, 0.25 * kGigabyte, 4 * kGigabyte, 1.0, Mode::kAuto), 0);
}

TEST(MessagePolicy, FollowsALinkThatGetsFaster) {
  MessagePolicy policy(kOneThread);
  for (int i = 0; i < 3; ++i) {
    Simulate(policy, 0.25 * kGigabyte, 4 * kGigabyte, 0.67, Mode::kAuto);
  }
  // Compressed, the link now looks as fast as the codec only; a raw message now and then shows
  // the truth.
  double fraction = 1;
  for (int i = 0; i < 100; ++i) {
    fraction = Simulate(policy, 50 * kGigabyte, 4 * kGigabyte, 0.67, Mode::kAuto);
  }
  EXPECT_LT(fraction, 0.05);
  for (int i = 0; i < 5; ++i) {
    fraction = Simulate(policy, 0.25 * kGigabyte, 4 * kGigabyte, 0.67, Mode::kAuto);
  }
  EXPECT_GT(fraction, 0.9);
}

// The first segments of a process are slow: that must not end compression for good.
TEST(MessagePolicy, ASlowFirstSegmentDoesNotDecide) {
  MessagePolicy policy(kOneThread);
  MessagePlan plan = policy.Begin({Mode::kAuto, CINCH_DTYPE_BF16, 64 * kMegabyte, "tensor"});
  EXPECT_TRUE(policy.CompressNext(plan, 65536, 64 * kMegabyte));
  policy.OnEncoded(plan, 65536, 44000, 65536 / (0.1 * kGigabyte));
  policy.OnPeerDecoded(65536, 65536 / (0.1 * kGigabyte));
  EXPECT_GT(Simulate(policy, 0.25 * kGigabyte, 4 * kGigabyte, 0.67, Mode::kAuto), 0.9);
}

/// Whether a large message is compressed over a link that is known, by a codec that was measured.
bool ChoosesCompression(double link, double encode, double decode,
                        uint64_t bytes = 1000 * kMegabyte) {
  MessagePolicy policy(kOneThread);
  policy.OnMeasured(encode, decode);
  policy.OnSent(false, 16 * kMegabyte, 16 * kMegabyte / link);
  MessagePlan plan = policy.Begin({Mode::kAuto, CINCH_DTYPE_BF16, 64 * kMegabyte, "tensor"});
  policy.OnEncoded(plan, 1, 1, 0);  // Nothing of its speed.
  plan = policy.Begin({Mode::kAuto, CINCH_DTYPE_BF16, bytes, "other"});
  EXPECT_EQ(PrefersCompression(plan.estimate), plan.compressed);
  return plan.compressed;
}

// A large message's time is the slowest stage's: a codec pays from the speed at which it is quicker
// than the raw link by what compression has to win.
TEST(MessagePolicy, TheChoiceFlipsAtTheSpeedThatTheCostModelNames) {
  constexpr double kAbundant = 1e13;
  for (const double link : {1e9, 12.5e9, 50e9}) {
    const double break_even = link / kRequiredGain;
    EXPECT_TRUE(ChoosesCompression(link, 1.02 * break_even, kAbundant)) << link;
    EXPECT_FALSE(ChoosesCompression(link, 0.98 * break_even, kAbundant)) << link;
    EXPECT_TRUE(ChoosesCompression(link, kAbundant, 1.02 * break_even)) << link;
    EXPECT_FALSE(ChoosesCompression(link, kAbundant, 0.98 * break_even)) << link;
    EXPECT_FALSE(ChoosesCompression(link, kAbundant, kAbundant, 8192)) << link;
  }
}

TEST(MessagePolicy, WhatThePeerTellsOutweighsWhatWasMeasuredHere) {
  MessagePolicy policy(kOneThread);
  policy.OnMeasured(10 * kGigabyte, 20 * kGigabyte);
  EXPECT_NEAR(policy.encode_bytes_per_second(), 10 * kGigabyte, 1);
  EXPECT_NEAR(policy.decode_bytes_per_second(), 20 * kGigabyte, 1);
  policy.OnPeerDecoded(64 * kMegabyte, 64 * kMegabyte / kGigabyte);
  const double told = policy.decode_bytes_per_second();
  policy.OnMeasured(30 * kGigabyte, 40 * kGigabyte);
  EXPECT_NEAR(policy.encode_bytes_per_second(), 30 * kGigabyte, 1);
  EXPECT_EQ(policy.decode_bytes_per_second(), told);
}

// Raw messages teach nothing of the codec: one whose speed was measured at a bad moment would be
// left alone for ever.
TEST(MessagePolicy, ACodecThatWasMeasuredTooSlowIsLookedAtAgain) {
  MessagePolicy policy(kOneThread);
  policy.OnMeasured(0.05 * kGigabyte, 0.05 * kGigabyte);
  Simulate(policy, 1 * kGigabyte, 20 * kGigabyte, 0.67, Mode::kRaw);
  double coded = 0;
  int messages = 0;
  while (coded < 0.9 && messages < 1000) {
    coded = Simulate(policy, 1 * kGigabyte, 20 * kGigabyte, 0.67, Mode::kAuto);
    ++messages;
  }
  EXPECT_GT(messages, 60);
  EXPECT_LT(messages, 1000);
  // The same over a link that no codec helps: it is left alone.
  MessagePolicy fast(kOneThread);
  fast.OnMeasured(0.05 * kGigabyte, 0.05 * kGigabyte);
  Simulate(fast, 1e16, 20 * kGigabyte, 0.67, Mode::kRaw);
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(Simulate(fast, 1e16, 20 * kGigabyte, 0.67, Mode::kAuto), 0) << i;
  }
}

TEST(MessagePolicy, PinsArePins) {
  MessagePolicy policy(kOneThread);
  EXPECT_EQ(Simulate(policy, 0.25 * kGigabyte, 4 * kGigabyte, 0.67, Mode::kRaw), 0);
  EXPECT_EQ(Simulate(policy, 50 * kGigabyte, 4 * kGigabyte, 1.0, Mode::kCompressed), 1);
}

TEST(MessagePolicy, SmallMessagesAreNotAskedAbout) {
  MessagePolicy policy(kOneThread);
  MessagePlan plan = policy.Begin({Mode::kCompressed, CINCH_DTYPE_BF16, 8, ""});
  EXPECT_FALSE(policy.CompressNext(plan, 8, 8));
  EXPECT_EQ(policy.counters().small_messages, 1u);
}

}  // namespace
}  // namespace cinch::policy
