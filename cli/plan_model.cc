// SPDX-License-Identifier: Apache-2.0
#include "plan_model.h"

#include <algorithm>
#include <cmath>

namespace cinch::cli {
namespace {

/// Seconds of one multiprocessor for 10^9 bytes each way, or for the slower end of one way.
double SmSeconds(const PlanInputs& inputs) {
  const double encode = 1 / inputs.encode_per_sm;
  const double decode = 1 / inputs.decode_per_sm;
  return inputs.both_ways ? encode + decode : std::max(encode, decode);
}

}  // namespace

double CodecRate(const PlanInputs& inputs) { return inputs.sms / SmSeconds(inputs); }

double PlainSeconds(const PlanInputs& inputs, const PlanLink& link, uint64_t bytes) {
  return inputs.fixed_seconds + static_cast<double>(bytes) * 1e-9 / link.rate;
}

double CodedSeconds(const PlanInputs& inputs, const PlanLink& link, uint64_t bytes) {
  const double rate = std::min(link.rate / inputs.kept, CodecRate(inputs));
  return inputs.fixed_seconds + inputs.coding_seconds + static_cast<double>(bytes) * 1e-9 / rate;
}

double SpeedUp(const PlanInputs& inputs, const PlanLink& link, uint64_t bytes) {
  return PlainSeconds(inputs, link, bytes) / CodedSeconds(inputs, link, bytes);
}

uint32_t SmsForLink(const PlanInputs& inputs, const PlanLink& link) {
  return static_cast<uint32_t>(std::ceil(link.rate / inputs.kept * SmSeconds(inputs) - 1e-9));
}

std::vector<PlanLink> KnownLinks() {
  // NVLink 4 and PCIe 5 as measured on an H200; the others by the same share of their nominal rate.
  return {{"200 Gb/s", 24}, {"400 Gb/s", 48},  {"PCIe 5 x16", 55},
          {"800 Gb/s", 96}, {"NVLink 4", 390}, {"NVLink 5", 780}};
}

}  // namespace cinch::cli
