// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "transfer/settings.h"

namespace cinch::transfer {

/// Of device memory: a device codes this in about the time of one segment of kMinSegmentBytes.
inline constexpr uint64_t kMinDeviceSegmentBytes = uint64_t{256} << 10;

/// Raw segments of device memory pay for their launches, too; a codec's kernel takes longer to
/// start by about this (H200).
inline constexpr double kDeviceHandoffSeconds = 5e-6;

/// What a device's codec does before anything was measured.
inline constexpr double kAssumedDeviceBytesPerSecond = 100e9;

/// Bytes of the segment that starts at `offset` of a message. Sizes double from `least_bytes`,
/// so that the wire starts early; they halve towards the end, so that little is left to decode
/// when the wire has finished. All but the last are multiples of kSegmentGranularityBytes.
[[nodiscard]] constexpr uint64_t SegmentBytesAt(uint64_t offset, uint64_t message_bytes,
                                                uint64_t segment_bytes,
                                                uint64_t least_bytes = kMinSegmentBytes) {
  const uint64_t left = message_bytes - offset;
  least_bytes = std::min(least_bytes, segment_bytes);
  if (left <= least_bytes) return left;
  // The segments so far were 1 + 2 + 4 ... times the smallest: the next is one smallest larger
  // than all of them together.
  const uint64_t up = std::min(offset, segment_bytes) + least_bytes;
  const uint64_t half = left / 2 / kSegmentGranularityBytes * kSegmentGranularityBytes;
  return std::min({up, segment_bytes, std::max(half, least_bytes)});
}

}  // namespace cinch::transfer
