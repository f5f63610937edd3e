// SPDX-License-Identifier: Apache-2.0
#include "policy/message_policy.h"

#include <algorithm>

namespace cinch::policy {
namespace {

constexpr uint64_t kRateMemoryBytes = uint64_t{64} << 20;

constexpr uint64_t kAssumptionBytes = uint64_t{4} << 20;
constexpr uint64_t kMeasuredBytes = uint64_t{16} << 20;

// The best that 16-bit floats do. When even that would not pay, nothing needs to be sampled.
constexpr double kBestKeptFraction = 0.6;

// How many compressed messages go by before one is sent raw to look at the link again.
constexpr uint32_t kMessagesBetweenLooks = 32;

// Looking at the link with less would measure the hand-shake of the transfer instead.
constexpr uint64_t kMinLookBytes = uint64_t{1} << 20;

// How many raw messages go by before a segment of one is coded to look at the codec again, and the
// least message to which that segment is nothing.
constexpr uint32_t kMessagesBetweenProbes = 64;
constexpr uint64_t kMinProbeBytes = uint64_t{16} << 20;

}  // namespace

MessagePolicy::MessagePolicy(const PolicyOptions& options)
    : options_(options), encode_(kRateMemoryBytes), decode_(kRateMemoryBytes) {
  encode_.Assume(options.assumed_bytes_per_second, kAssumptionBytes);
  decode_.Assume(options.assumed_bytes_per_second, kAssumptionBytes);
}

void MessagePolicy::OnMeasured(double encode_bytes_per_second, double decode_bytes_per_second) {
  encode_.Assume(encode_bytes_per_second / options_.encode_threads, kMeasuredBytes);
  if (decode_.sampled()) return;
  decode_.Assume(decode_bytes_per_second / options_.decode_threads, kMeasuredBytes);
}

double MessagePolicy::encode_bytes_per_second() const {
  return encode_.bytes_per_second() * options_.encode_threads;
}

double MessagePolicy::decode_bytes_per_second() const {
  return decode_.bytes_per_second() * options_.decode_threads;
}

CostInputs MessagePolicy::Inputs(double kept_fraction, uint64_t bytes) const {
  CostInputs inputs;
  inputs.message_bytes = bytes;
  inputs.kept_fraction = kept_fraction;
  inputs.link_bytes_per_second = link_.bytes_per_second();
  inputs.encode_bytes_per_second = encode_bytes_per_second();
  inputs.decode_bytes_per_second = decode_bytes_per_second();
  inputs.first_segment_bytes = options_.first_segment_bytes;
  inputs.last_segment_bytes = options_.first_segment_bytes;
  inputs.handoff_seconds = options_.handoff_seconds;
  return inputs;
}

bool MessagePolicy::Choose(MessagePlan& plan, uint64_t bytes) const {
  const double kept = plan.kept_fraction > 0 ? plan.kept_fraction : kBestKeptFraction;
  plan.estimate = EstimateCost(Inputs(kept, bytes));
  return PrefersCompression(plan.estimate);
}

// Whether this message would be compressed if the codec were as fast as can be: then its speed is
// what speaks against it, and may have been measured at a bad moment.
bool MessagePolicy::CodecMayPay(const MessagePlan& plan, uint64_t bytes) const {
  constexpr double kBoundless = 1e15;
  CostInputs inputs =
      Inputs(plan.kept_fraction > 0 ? plan.kept_fraction : kBestKeptFraction, bytes);
  inputs.encode_bytes_per_second = kBoundless;
  inputs.decode_bytes_per_second = kBoundless;
  return PrefersCompression(EstimateCost(inputs));
}

MessagePlan MessagePolicy::Begin(const MessageTraits& traits) {
  MessagePlan plan;
  plan.mode = traits.mode;
  if (traits.bytes < kMinCompressedBytes) {
    plan.mode = Mode::kRaw;
    ++counters_.small_messages;
    return plan;
  }
  plan.compressed = plan.mode == Mode::kCompressed;
  plan.key = MakeRatioKey(traits.dtype, traits.bytes, traits.name);
  if (plan.mode == Mode::kAuto) {
    plan.kept_fraction = ratios_.Predict(plan.key).value_or(0);
    plan.compressed = !link_.known() || Choose(plan, traits.bytes);
    const bool hidden_link = plan.compressed && link_.known() && traits.bytes >= kMinLookBytes &&
                             CodecIsBottleneck(Inputs(kBestKeptFraction, traits.bytes));
    plan.exploring = hidden_link && compressed_since_raw_ >= kMessagesBetweenLooks;
    if (plan.exploring) plan.compressed = false;
    compressed_since_raw_ = plan.compressed ? compressed_since_raw_ + 1 : 0;
    if (!plan.compressed) ++raw_since_coded_;
    plan.probing = !plan.compressed && !plan.exploring && traits.bytes >= kMinProbeBytes &&
                   raw_since_coded_ > kMessagesBetweenProbes && CodecMayPay(plan, traits.bytes);
  }
  ++(plan.compressed ? counters_.compressed_messages : counters_.raw_messages);
  last_plan_ = plan;
  return plan;
}

bool MessagePolicy::CompressNext(MessagePlan& plan, uint64_t segment_bytes,
                                 uint64_t remaining_bytes) {
  if (plan.mode != Mode::kAuto) return plan.mode == Mode::kCompressed;
  if (segment_bytes < kMinCompressedBytes || plan.exploring) return false;
  if (plan.probing) {
    plan.probing = false;
    encode_probed_ = decode_probed_ = true;
    return true;
  }
  if (link_.known()) {
    const bool compressed = Choose(plan, remaining_bytes);
    if (compressed != plan.compressed) {
      plan.compressed = compressed;
      ++plan.changes;
      ++counters_.changes;
    }
    if (!compressed) return false;
  }
  if (plan.kept_fraction > 0) return link_.known();
  // One segment is coded to learn how well it compresses; those beside it go raw and measure the
  // link, so that nothing waits for knowledge.
  if (plan.sampling) return false;
  plan.sampling = true;
  return true;
}

void MessagePolicy::OnEncoded(MessagePlan& plan, uint64_t original_bytes, uint64_t kept_bytes,
                              double seconds) {
  AddSample(encode_, encode_probed_, original_bytes, seconds);
  raw_since_coded_ = 0;
  if (original_bytes == 0 || plan.key.size_class == 0) return;
  ratios_.Learn(plan.key, original_bytes, kept_bytes);
  const double sample = static_cast<double>(kept_bytes) / static_cast<double>(original_bytes);
  plan.kept_fraction =
      plan.kept_fraction > 0 ? (3 * plan.kept_fraction + sample) / 4 : std::max(sample, 1e-6);
  plan.sampling = false;
}

void MessagePolicy::OnSent(bool compressed, uint64_t wire_bytes, double seconds) {
  if (compressed) {
    link_.AddCompressed(wire_bytes, seconds);
  } else {
    link_.AddRaw(wire_bytes, seconds);
  }
}

void MessagePolicy::OnPeerDecoded(uint64_t original_bytes, double seconds) {
  AddSample(decode_, decode_probed_, original_bytes, seconds);
}

void MessagePolicy::AddSample(RateEstimator& rate, bool& probed, uint64_t bytes, double seconds) {
  if (probed && bytes > 0 && seconds > 0) {
    rate.Assume(static_cast<double>(bytes) / seconds, kAssumptionBytes);
    probed = false;
  }
  rate.Add(bytes, seconds);
}

}  // namespace cinch::policy
