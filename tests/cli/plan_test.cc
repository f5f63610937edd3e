// SPDX-License-Identifier: Apache-2.0
#include "plan_model.h"

#include <gtest/gtest.h>

namespace cinch::cli {
namespace {

PlanInputs Inputs() {
  PlanInputs inputs;
  inputs.kept = 0.5;
  inputs.encode_per_sm = 20;
  inputs.decode_per_sm = 20;
  inputs.sms = 16;
  inputs.fixed_seconds = 0;
  inputs.coding_seconds = 0;
  return inputs;
}

TEST(PlanTest, ASlowLinkGivesTheRatioBack) {
  EXPECT_DOUBLE_EQ(CodecRate(Inputs()), 160);
  EXPECT_NEAR(SpeedUp(Inputs(), {"", 50}, 1 << 30), 2, 1e-9);
  EXPECT_EQ(SmsForLink(Inputs(), {"", 50}), 10U);
}

TEST(PlanTest, AFastLinkIsLimitedByTheCodec) {
  EXPECT_NEAR(SpeedUp(Inputs(), {"", 400}, 1 << 30), 0.4, 1e-9);
  EXPECT_EQ(SmsForLink(Inputs(), {"", 400}), 80U);
}

TEST(PlanTest, OneWayIsLimitedByTheSlowerEnd) {
  PlanInputs inputs = Inputs();
  inputs.both_ways = false;
  inputs.decode_per_sm = 10;
  EXPECT_DOUBLE_EQ(CodecRate(inputs), 160);
}

TEST(PlanTest, ShortMessagesPayForCoding) {
  PlanInputs inputs = Inputs();
  inputs.fixed_seconds = 10e-6;
  inputs.coding_seconds = 5e-6;
  EXPECT_LT(SpeedUp(inputs, {"", 50}, 1000), 1);
  EXPECT_GT(SpeedUp(inputs, {"", 50}, 1 << 26), 1.9);
  EXPECT_GE(KnownLinks().size(), 6U);
}

}  // namespace
}  // namespace cinch::cli
