// SPDX-License-Identifier: Apache-2.0
/// @file slot.h
/// What lies in memory that a GPU, its host and peers share. Everything travels as slots: a header,
/// then a frame of which the first `wire_bytes` less the header are sent.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cinch::collectives {

inline constexpr uint32_t kSlotMagic = 0x4C534E43;  // "CNSL"
inline constexpr uint32_t kSlotVersion = 1;
/// Kept fractions are counted in these: 65536 is 1.
inline constexpr uint64_t kRatioOne = 65536;

/// What a sender says of its part in an operation. Ratio and times cover all that this rank sends
/// in the operation, so that ranks which combine every rank's header get the same answer.
struct SlotHeader {
  uint32_t magic;
  uint32_t version;
  uint64_t original_bytes;
  uint64_t frame_bytes;             ///< 0 when the header travels alone.
  uint64_t ratio;                   ///< Largest kept fraction of the sender's frames, rounded up.
  uint64_t raw_nanoseconds;         ///< For a MiB, plain; 0 = not measured yet.
  uint64_t compressed_nanoseconds;  ///< For a MiB, compressed; 0 = not measured yet.
  uint64_t reserved[2];
};
static_assert(sizeof(SlotHeader) == 64);

/// Pinned memory: what all participants' headers of an operation said, combined by the maximum.
struct KeyRecord {
  uint32_t ready;  ///< Written last.
  uint32_t reserved;
  uint64_t ratio;
  uint64_t raw_nanoseconds;
  uint64_t compressed_nanoseconds;
};
static_assert(sizeof(KeyRecord) == 32);

enum class Outcome : uint32_t { kPending = 0, kGood = 1, kOverflow = 2, kCorrupt = 3 };

/// Pinned memory: how a step's decoding went, and the flag that its stream waits for. A record is
/// used again and again, each time with a larger target, so that it never takes back what a stream
/// may not have seen yet.
struct StepRecord {
  uint32_t flag;            ///< Equal to target: the stream may go on.
  uint32_t target;          ///< Of this use; the host's.
  uint32_t outcome;         ///< An Outcome.
  uint32_t outcome_target;  ///< Equal to target: outcome is valid. Written after it.
  uint32_t reserved[4];
};
static_assert(sizeof(StepRecord) == 32);

}  // namespace cinch::collectives
