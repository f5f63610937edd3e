// SPDX-License-Identifier: Apache-2.0
#include "policy/cost_model.h"

#include <algorithm>

namespace cinch::policy {
namespace {

double Seconds(double bytes, double bytes_per_second) { return bytes / bytes_per_second; }

}  // namespace

CostEstimate EstimateCost(const CostInputs& inputs) {
  const auto bytes = static_cast<double>(inputs.message_bytes);
  const double wire = Seconds(bytes * inputs.kept_fraction, inputs.link_bytes_per_second);
  const double encode = Seconds(bytes, inputs.encode_bytes_per_second);
  const double decode = Seconds(bytes, inputs.decode_bytes_per_second);
  const auto first =
      static_cast<double>(std::min(inputs.first_segment_bytes, inputs.message_bytes));
  const auto last = static_cast<double>(std::min(inputs.last_segment_bytes, inputs.message_bytes));
  const double fill = Seconds(first, inputs.encode_bytes_per_second) +
                      Seconds(last, inputs.decode_bytes_per_second) + 2 * inputs.handoff_seconds;
  return {Seconds(bytes, inputs.link_bytes_per_second), std::max({wire, encode, decode}) + fill};
}

bool PrefersCompression(const CostEstimate& estimate) {
  return estimate.compressed_seconds < estimate.raw_seconds * kRequiredGain;
}

bool CodecIsBottleneck(const CostInputs& inputs) {
  // Near the balance the measured wire rate already suffers, so the test starts below it.
  constexpr double kNearBalance = 0.8;
  const double wire_seconds_per_byte = inputs.kept_fraction / inputs.link_bytes_per_second;
  const double codec_seconds_per_byte =
      1 / std::min(inputs.encode_bytes_per_second, inputs.decode_bytes_per_second);
  return codec_seconds_per_byte > kNearBalance * wire_seconds_per_byte;
}

}  // namespace cinch::policy
