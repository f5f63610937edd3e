// SPDX-License-Identifier: Apache-2.0
#include "bench/collectives/measurement_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

namespace cinch::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

CompareOptions Parse(const std::vector<std::string>& arguments) {
  CompareOptions options;
  std::string text;
  EXPECT_EQ(ParseCompareOptions(arguments, &options, &text), Parsed::kRun) << text;
  return options;
}

std::string WhatIsWrong(const std::vector<std::string>& arguments) {
  CompareOptions options;
  std::string text;
  EXPECT_EQ(ParseCompareOptions(arguments, &options, &text), Parsed::kWrong);
  return text;
}

TEST(CompareArguments, DefaultsMeasureEverything) {
  const CompareOptions options = Parse({});
  EXPECT_EQ(options.collectives.size(), 7U);
  EXPECT_EQ(options.sizes_bytes.front(), uint64_t{256} << 20);
  EXPECT_EQ(*std::ranges::min_element(options.sizes_bytes), uint64_t{1} << 20);
  EXPECT_EQ(*std::ranges::max_element(options.sizes_bytes), uint64_t{4} << 30);
  EXPECT_THAT(options.sms, ElementsAre(64, 48, 32, 16));
  EXPECT_EQ(options.dtype, CINCH_DTYPE_BF16);
  EXPECT_FALSE(options.dry);
  EXPECT_FALSE(options.share_gpu);
}

TEST(CompareArguments, AreTaken) {
  const CompareOptions options =
      Parse({"--gpus", "4", "--operations", "all-reduce,send", "--sizes", "64K,3M,1G", "--sms",
             "24", "--dtype", "fp32", "--data", "heavy_tailed", "--nccl", "/a/libnccl.so.2",
             "--wrapped", "/b/libnccl.so.2", "--seconds", "20.5", "--dry"});
  EXPECT_EQ(options.gpus, 4U);
  EXPECT_THAT(options.collectives, ElementsAre(Collective::kSendOneWay, Collective::kAllReduce));
  EXPECT_THAT(options.sizes_bytes,
              ElementsAre(uint64_t{64} << 10, uint64_t{3} << 20, uint64_t{1} << 30));
  EXPECT_THAT(options.sms, ElementsAre(24));
  EXPECT_EQ(options.dtype, CINCH_DTYPE_FP32);
  EXPECT_EQ(options.data, "heavy_tailed");
  EXPECT_EQ(options.nccl, "/a/libnccl.so.2");
  EXPECT_EQ(options.wrapped, "/b/libnccl.so.2");
  EXPECT_DOUBLE_EQ(options.budget_seconds, 20.5);
  EXPECT_TRUE(options.dry);
}

TEST(CompareArguments, EarlierOnesAreForgotten) {
  CompareOptions options = Parse({"--sizes", "1M", "--sms", "16"});
  std::string text;
  ASSERT_EQ(ParseCompareOptions({}, &options, &text), Parsed::kRun);
  EXPECT_THAT(options.sms, ElementsAre(64, 48, 32, 16));
  EXPECT_GT(options.sizes_bytes.size(), 1U);
}

TEST(CompareArguments, WrongOnesAreNamed) {
  EXPECT_THAT(WhatIsWrong({"--gpus", "1"}), HasSubstr("--gpus"));
  EXPECT_THAT(WhatIsWrong({"--gpus", "17"}), HasSubstr("--gpus"));
  EXPECT_THAT(WhatIsWrong({"--operations", "all-gather,gather"}), HasSubstr("gather"));
  EXPECT_THAT(WhatIsWrong({"--sizes", "1M,x"}), HasSubstr("--sizes"));
  EXPECT_THAT(WhatIsWrong({"--sizes", "1K"}), HasSubstr("--sizes"));
  EXPECT_THAT(WhatIsWrong({"--sizes", "64G"}), HasSubstr("--sizes"));
  EXPECT_THAT(WhatIsWrong({"--sms", "0"}), HasSubstr("--sms"));
  EXPECT_THAT(WhatIsWrong({"--dtype", "fp8"}), HasSubstr("--dtype"));
  EXPECT_THAT(WhatIsWrong({"--seconds", "-1"}), HasSubstr("--seconds"));
  EXPECT_THAT(WhatIsWrong({"--everything"}), HasSubstr("--everything"));
}

TEST(CompareArguments, HelpNamesThemAll) {
  CompareOptions options;
  std::string text;
  ASSERT_EQ(ParseCompareOptions({"--help"}, &options, &text), Parsed::kHelp);
  for (const char* name : {"--gpus", "--share-gpu", "--operations", "--sizes", "--sms", "--dtype",
                           "--data", "--nccl", "--wrapped", "--seconds", "--dry", "all-to-all"}) {
    EXPECT_THAT(text, HasSubstr(name));
  }
}

TEST(CompareRanks, AreTheVisibleGpus) {
  uint32_t ranks = 0;
  std::string text;
  ASSERT_TRUE(ChooseRanks(Parse({}), 2, &ranks, &text));
  EXPECT_EQ(ranks, 2U);
  ASSERT_TRUE(ChooseRanks(Parse({}), 8, &ranks, &text));
  EXPECT_EQ(ranks, 8U);
  ASSERT_TRUE(ChooseRanks(Parse({}), 32, &ranks, &text));
  EXPECT_EQ(ranks, 16U);
  ASSERT_TRUE(ChooseRanks(Parse({"--gpus", "4"}), 8, &ranks, &text));
  EXPECT_EQ(ranks, 4U);
}

TEST(CompareRanks, TooFewGpusAreSaid) {
  uint32_t ranks = 0;
  for (const uint32_t visible : {0U, 1U}) {
    std::string text;
    ASSERT_FALSE(ChooseRanks(Parse({}), visible, &ranks, &text));
    EXPECT_THAT(text, HasSubstr("needs 2 GPUs, and " + std::to_string(visible)));
  }
  std::string text;
  ASSERT_FALSE(ChooseRanks(Parse({"--gpus", "8"}), 4, &ranks, &text));
  EXPECT_THAT(text, HasSubstr("needs 8 GPUs, and 4"));
  ASSERT_FALSE(ChooseRanks(Parse({"--share-gpu"}), 0, &ranks, &text));
  EXPECT_THAT(text, HasSubstr("no GPU"));
}

TEST(CompareRanks, OneGpuIsSharedAndAPlanNeedsNone) {
  uint32_t ranks = 0;
  std::string text;
  ASSERT_TRUE(ChooseRanks(Parse({"--share-gpu"}), 1, &ranks, &text));
  EXPECT_EQ(ranks, 2U);
  ASSERT_TRUE(ChooseRanks(Parse({"--share-gpu"}), 8, &ranks, &text));
  EXPECT_EQ(ranks, 2U);
  ASSERT_TRUE(ChooseRanks(Parse({"--share-gpu", "--gpus", "8"}), 1, &ranks, &text));
  EXPECT_EQ(ranks, 8U);
  ASSERT_TRUE(ChooseRanks(Parse({"--dry"}), 0, &ranks, &text));
  EXPECT_EQ(ranks, 2U);
}

using Group = std::pair<uint64_t, Collective>;

TEST(ComparePlan, GroupsBeginWithNccl) {
  const CompareOptions options = Parse({"--wrapped", "x"});
  std::map<Group, std::vector<Measurement>> groups;
  std::set<Group> ended;
  Group last{};
  for (const Measurement& one : MakePlan(options, 4)) {
    const Group group{one.bytes, one.collective};
    if (group != last) {
      EXPECT_TRUE(ended.insert(group).second) << "a group in two pieces";
      EXPECT_EQ(one.method, Method::kNccl);
    }
    last = group;
    groups[group].push_back(one);
  }
  ASSERT_EQ(groups.size(), options.sizes_bytes.size() * options.collectives.size());
  for (const auto& [group, made] : groups) {
    ASSERT_EQ(made.size(), AddsUp(group.second) ? 8U : 9U);
    EXPECT_EQ(made[1].method, Method::kWrapped);
    std::set<std::tuple<Method, uint32_t>> different;
    for (const Measurement& one : made) {
      different.emplace(one.method, one.sms);
      EXPECT_EQ(one.sms != 0, IsFused(one.method));
    }
    EXPECT_EQ(different.size(), made.size());
  }
}

TEST(ComparePlan, TheFirstSizeComesFirst) {
  const CompareOptions options = Parse({"--sizes", "32M,1M"});
  const std::vector<Measurement> plan = MakePlan(options, 2);
  const auto half = static_cast<std::ptrdiff_t>(plan.size() / 2);
  EXPECT_TRUE(std::all_of(plan.begin(), plan.begin() + half,
                          [](const Measurement& one) { return one.bytes == uint64_t{32} << 20; }));
  EXPECT_TRUE(std::all_of(plan.begin() + half, plan.end(),
                          [](const Measurement& one) { return one.bytes == uint64_t{1} << 20; }));
}

TEST(ComparePlan, PartsAreEqualAndAligned) {
  for (uint32_t ranks = 2; ranks <= 16; ++ranks) {
    for (const Measurement& one : MakePlan(Parse({"--sizes", "64K,1M,100M"}), ranks)) {
      EXPECT_GT(one.bytes, 0U);
      EXPECT_EQ(one.bytes % (uint64_t{256} * ranks), 0U);
    }
  }
}

TEST(ComparePlan, RanksOnOneGpuRunAtOnceAndWithoutNccl) {
  for (const uint32_t ranks : {2U, 4U, 8U, 16U}) {
    const std::vector<Measurement> plan = MakePlan(Parse({"--share-gpu"}), ranks);
    ASSERT_FALSE(plan.empty());
    for (const Measurement& one : plan) {
      if (one.method == Method::kCopies) continue;
      EXPECT_TRUE(IsFused(one.method));
      EXPECT_GT(one.sms, 0U);
      EXPECT_LE(one.sms * ranks, 128U);
    }
  }
}

TEST(ComparePlan, WhatIsNotCodedIsMeasuredAsItIs) {
  for (const Measurement& one : MakePlan(Parse({"--dtype", "fp32"}), 2)) {
    EXPECT_NE(one.method, Method::kFused);
    EXPECT_NE(one.method, Method::kFusedDirect);
    EXPECT_FALSE(one.method == Method::kCopies && AddsUp(one.collective));
  }
}

TEST(CompareWire, CountsWhatMustBeSent) {
  EXPECT_EQ(WireBytes(Collective::kSendReceive, 800, 4), 800U);
  EXPECT_EQ(WireBytes(Collective::kSendOneWay, 800, 4), 800U);
  EXPECT_EQ(WireBytes(Collective::kBroadcast, 800, 4), 800U);
  EXPECT_EQ(WireBytes(Collective::kAllGather, 800, 4), 600U);
  EXPECT_EQ(WireBytes(Collective::kAllToAll, 800, 2), 400U);
  EXPECT_EQ(WireBytes(Collective::kReduceScatter, 800, 8), 700U);
  EXPECT_EQ(WireBytes(Collective::kAllReduce, 800, 4), 1200U);
}

TEST(CompareWire, OnlySumsOfManyDiffer) {
  EXPECT_TRUE(HasOneResult(Collective::kAllReduce, 2));
  EXPECT_FALSE(HasOneResult(Collective::kAllReduce, 3));
  EXPECT_FALSE(HasOneResult(Collective::kReduceScatter, 8));
  EXPECT_TRUE(HasOneResult(Collective::kAllToAll, 8));
}

TEST(CompareTargets, DependOnTheSize) {
  for (const Collective collective : Parse({}).collectives) {
    double before = 0;
    for (uint64_t bytes = uint64_t{1} << 20; bytes <= uint64_t{1} << 32; bytes *= 2) {
      const double target = TargetOf(collective, bytes);
      EXPECT_GE(target, before);
      EXPECT_EQ(target == 0, bytes < uint64_t{32} << 20);
      before = target;
    }
  }
  EXPECT_DOUBLE_EQ(TargetOf(Collective::kAllGather, uint64_t{256} << 20), 1.3);
  EXPECT_DOUBLE_EQ(TargetOf(Collective::kAllReduce, uint64_t{1} << 30), 1.15);
  EXPECT_DOUBLE_EQ(TargetOf(Collective::kSendReceive, uint64_t{255} << 20), 1.1);
}

TEST(CompareLines, SayWhatWasMeasured) {
  const CompareOptions options = Parse({"--data", "file:/a/b.safetensors"});
  const RunFacts facts{4, false, "A GPU", "2.28.9"};
  const Measurement one{Collective::kAllGather, Method::kFused, 4000000000, 32};
  const nlohmann::json line = ResultLine(options, facts, one, {0.01, 0.008, 1});
  EXPECT_EQ(nlohmann::json::parse(line.dump()), line);
  EXPECT_EQ(line.dump().find('\n'), std::string::npos);
  const nlohmann::json expected = {{"bench", "collectives"},
                                   {"operation", "all-gather"},
                                   {"method", "fused"},
                                   {"ranks", 4},
                                   {"data", "file:/a/b.safetensors"},
                                   {"dtype", "bf16"},
                                   {"bytes", 4000000000},
                                   {"wire_bytes", 3000000000},
                                   {"one_way", false},
                                   {"sms", 32},
                                   {"device", "A GPU"},
                                   {"shared_gpu", false},
                                   {"nccl", "2.28.9"},
                                   {"seconds", 0.01},
                                   {"fastest_seconds", 0.008},
                                   {"gbps", line["gbps"]},
                                   {"bus_gbps", line["bus_gbps"]},
                                   {"target", 1.3},
                                   {"same_bits", true}};
  EXPECT_EQ(line, expected);
  EXPECT_NEAR(line["gbps"].get<double>(), 400, 1e-6);
  EXPECT_NEAR(line["bus_gbps"].get<double>(), 300, 1e-6);
}

TEST(CompareLines, LeaveOutWhatIsNotKnown) {
  const Measurement one{Collective::kSendOneWay, Method::kNccl, 1000, 0};
  const nlohmann::json line = ResultLine(Parse({}), {2, true, "A GPU", ""}, one, {1, 1, -1});
  EXPECT_FALSE(line.contains("sms"));
  EXPECT_FALSE(line.contains("same_bits"));
  EXPECT_FALSE(line.contains("nccl"));
  EXPECT_EQ(line["one_way"], true);
}

}  // namespace
}  // namespace cinch::bench
