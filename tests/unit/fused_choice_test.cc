// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "cinch/fused.h"

namespace {

/// What is recommended has to be what was measured.
TEST(FusedChoiceTest, NothingIsRecommendedThatLost) {
  std::ifstream file(CINCH_SOURCE_DIR "/bench/results/fused.json");
  const nlohmann::json rows = nlohmann::json::parse(file)["two_gpus"]["rows"];
  const std::map<std::string, cinch_fused_operation> operations{
      {"send one way", CINCH_FUSED_SEND},
      {"send/recv both ways", CINCH_FUSED_EXCHANGE},
      {"all-gather", CINCH_FUSED_ALL_GATHER},
      {"all-to-all", CINCH_FUSED_ALL_TO_ALL},
      {"reduce-scatter", CINCH_FUSED_REDUCE_SCATTER},
      {"all-reduce", CINCH_FUSED_ALL_REDUCE}};
  int recommended = 0;
  for (const nlohmann::json& row : rows) {
    const auto operation = operations.at(row["operation"].get<std::string>());
    const uint64_t bytes = row["mebibytes"].get<uint64_t>() << 20;
    if (cinch_fused_pays(operation, bytes) == 0) continue;
    ++recommended;
    EXPECT_GE(row["best_to_nccl"].get<double>(), 0.97) << row.dump();
  }
  EXPECT_GE(recommended, 12);
}

TEST(FusedChoiceTest, WhatWasNotMeasuredIsNotRecommended) {
  EXPECT_EQ(cinch_fused_pays(CINCH_FUSED_BROADCAST, uint64_t{1} << 30), 0);
  EXPECT_EQ(cinch_fused_pays(CINCH_FUSED_SEND, 0), 0);
}

}  // namespace
