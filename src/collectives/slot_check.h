// SPDX-License-Identifier: Apache-2.0
/// @file slot_check.h
/// What a host makes of the headers that came with peers' slots. They are untrusted.
#pragma once

#include "collectives/slot.h"
#include "format/layout.h"

namespace cinch::collectives {

/// No frame keeps more of its input than this but small ones, for which every slot has room.
inline constexpr uint64_t kMaxRatio = 2 * kRatioOne;

/// Bytes of a frame that were not sent with its slot of `wire_bytes`, header included.
[[nodiscard]] inline uint64_t MissingBytes(const SlotHeader& header, uint64_t wire_bytes) {
  const uint64_t sent = wire_bytes - sizeof(SlotHeader);
  return header.frame_bytes > sent ? header.frame_bytes - sent : 0;
}

/// Whether a header can be that of a frame of `bytes`.
[[nodiscard]] inline bool IsSane(const SlotHeader& header, uint64_t bytes) {
  return header.magic == kSlotMagic && header.version == kSlotVersion &&
         header.original_bytes == bytes && header.frame_bytes <= format::FrameBound(bytes);
}

}  // namespace cinch::collectives
