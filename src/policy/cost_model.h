// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cinch::policy {

/// Handing a segment to a codec thread and back costs about this much at each end (measured on a
/// two-core virtual machine; it only matters for messages of some tens of KiB).
inline constexpr double kCodecHandoffSeconds = 25e-6;

/// What the cost model compares. Rates are bytes a second; zero means unknown.
struct CostInputs {
  uint64_t message_bytes = 0;
  double kept_fraction = 1;  ///< Wire bytes of an original byte when compressed.
  double link_bytes_per_second = 0;
  double encode_bytes_per_second = 0;  ///< Original bytes, all codec threads together.
  double decode_bytes_per_second = 0;
  uint64_t first_segment_bytes = 0;               ///< Coded before the wire can start.
  uint64_t last_segment_bytes = 0;                ///< Decoded after the wire has ended.
  double handoff_seconds = kCodecHandoffSeconds;  ///< What coding adds at each end, however little.
};

struct CostEstimate {
  double raw_seconds = 0;
  double compressed_seconds = 0;
};

/// Compression must win by this factor: what it saves is worth nothing if it only keeps cores busy.
inline constexpr double kRequiredGain = 0.97;

/// The time of a message either way. Compressed, wire and both codecs run side by side, so the
/// slowest counts, plus what cannot overlap: the first segment's encoding and the last one's
/// decoding. All three rates must be known.
[[nodiscard]] CostEstimate EstimateCost(const CostInputs& inputs);

/// Whether compression is worth it.
[[nodiscard]] bool PrefersCompression(const CostEstimate& estimate);

/// Whether a compressed message's time comes from the codecs rather than from the wire: then the
/// wire's own speed cannot be seen, and may be higher than what was measured.
[[nodiscard]] bool CodecIsBottleneck(const CostInputs& inputs);

}  // namespace cinch::policy
