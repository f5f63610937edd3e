// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "policy/cost_model.h"
#include "policy/rate_estimator.h"
#include "policy/ratio_memory.h"

namespace cinch::policy {

enum class Mode : uint8_t { kAuto, kRaw, kCompressed };

/// A message as the policy sees it.
struct MessageTraits {
  Mode mode = Mode::kAuto;
  cinch_dtype dtype = CINCH_DTYPE_AUTO;
  uint64_t bytes = 0;
  std::string_view name;
};

/// The policy's state of one message while it is sent.
struct MessagePlan {
  Mode mode = Mode::kAuto;
  RatioKey key;
  double kept_fraction = 0;  ///< Prediction; 0 while unknown.
  bool sampling = false;     ///< A segment is being coded to learn the kept fraction.
  bool compressed = false;   ///< The choice in force.
  bool exploring = false;    ///< Sent raw to see how fast the link really is.
  bool probing = false;      ///< Its first segment is coded to see how fast the codec really is.
  uint32_t changes = 0;      ///< How often the choice changed since the message began.
  CostEstimate estimate;     ///< The last one; zeroes when something was unknown.
};

/// Messages below this are never compressed: the hand-off to a codec thread costs more than any
/// wire saves.
inline constexpr uint64_t kMinCompressedBytes = 4096;

struct PolicyOptions {
  uint32_t encode_threads = 1;       ///< Codec threads here, at least 1,
  uint32_t decode_threads = 1;       ///< and at the peer.
  uint64_t first_segment_bytes = 0;  ///< The first and the last segment of a large message.
  /// Of one codec thread, before anything was measured. The default is between what one thread of
  /// the portable path and one of the AVX-512 path do.
  double assumed_bytes_per_second = 2e9;
  /// What a compressed message pays at each end that a raw one does not.
  double handoff_seconds = kCodecHandoffSeconds;
};

/// Decides raw or compressed for the messages of one sender, from what it has seen. Pure state: no
/// clock, no threads; the owner serialises the calls.
class MessagePolicy {
 public:
  struct Counters {
    uint64_t raw_messages = 0;
    uint64_t compressed_messages = 0;
    uint64_t small_messages = 0;
    uint64_t changes = 0;
  };

  explicit MessagePolicy(const PolicyOptions& options);

  /// The codec's speed has been measured: that replaces what was assumed and seen of it here, and
  /// what was assumed of the peer's, of which the peer itself tells.
  void OnMeasured(double encode_bytes_per_second, double decode_bytes_per_second);

  /// Opens a message.
  [[nodiscard]] MessagePlan Begin(const MessageTraits& traits);

  /// Whether the next segment, of `segment_bytes`, is compressed; `remaining_bytes` includes it.
  [[nodiscard]] bool CompressNext(MessagePlan& plan, uint64_t segment_bytes,
                                  uint64_t remaining_bytes);

  /// One segment was encoded by one thread.
  void OnEncoded(MessagePlan& plan, uint64_t original_bytes, uint64_t kept_bytes, double seconds);

  /// `wire_bytes` left the busy link in `seconds`.
  void OnSent(bool compressed, uint64_t wire_bytes, double seconds);

  /// The peer decoded `original_bytes`, which took its codec threads `seconds` together.
  void OnPeerDecoded(uint64_t original_bytes, double seconds);

  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] const MessagePlan& last_plan() const { return last_plan_; }
  [[nodiscard]] double link_bytes_per_second() const { return link_.bytes_per_second(); }
  [[nodiscard]] double encode_bytes_per_second() const;
  [[nodiscard]] double decode_bytes_per_second() const;

 private:
  [[nodiscard]] bool Choose(MessagePlan& plan, uint64_t bytes) const;
  static void AddSample(RateEstimator& rate, bool& probed, uint64_t bytes, double seconds);
  [[nodiscard]] bool CodecMayPay(const MessagePlan& plan, uint64_t bytes) const;
  [[nodiscard]] CostInputs Inputs(double kept_fraction, uint64_t bytes) const;

  const PolicyOptions options_;
  LinkEstimator link_;
  RateEstimator encode_;
  RateEstimator decode_;
  RatioMemory ratios_;
  uint32_t compressed_since_raw_ = 0;
  uint32_t raw_since_coded_ = 0;
  bool encode_probed_ = false;  // The next sample is a probe's: it replaces what was thought.
  bool decode_probed_ = false;
  Counters counters_;
  MessagePlan last_plan_;
};

}  // namespace cinch::policy
