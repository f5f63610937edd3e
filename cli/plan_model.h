// SPDX-License-Identifier: Apache-2.0
/// @file plan_model.h
/// What compression inside the communication kernel is worth, from a few rates: docs/benchmarks.md
/// has the assumptions and what was measured against them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cinch::cli {

/// Rates in 10^9 original bytes a second.
struct PlanInputs {
  double kept = 0.70;           ///< Compressed bytes of each original byte.
  double encode_per_sm = 19.4;  ///< Of one multiprocessor, when all that are used are full.
  double decode_per_sm = 25;
  uint32_t sms = 32;      ///< Of each GPU, for the communication kernel.
  bool both_ways = true;  ///< Every GPU sends and receives at the same time.
  /// A message's time that does not depend on its size, in seconds: as it is, and what coding adds.
  double fixed_seconds = 10e-6;
  double coding_seconds = 1.7e-6;
};

struct PlanLink {
  std::string name;
  double rate = 0;  ///< What a plain copy reaches in one direction, 10^9 bytes a second.
};

/// What the codec does with the SMs, in 10^9 original bytes a second and direction.
double CodecRate(const PlanInputs& inputs);
double PlainSeconds(const PlanInputs& inputs, const PlanLink& link, uint64_t bytes);
double CodedSeconds(const PlanInputs& inputs, const PlanLink& link, uint64_t bytes);
/// Plain time over coded time. Below 1 a policy steps aside.
double SpeedUp(const PlanInputs& inputs, const PlanLink& link, uint64_t bytes);
/// The fewest multiprocessors with which the link and not the codec is the limit.
uint32_t SmsForLink(const PlanInputs& inputs, const PlanLink& link);

/// The links that people have.
std::vector<PlanLink> KnownLinks();

}  // namespace cinch::cli
