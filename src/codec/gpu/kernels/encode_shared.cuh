// SPDX-License-Identifier: Apache-2.0
/// @file encode_shared.cuh
/// How a thread block that compresses divides its work and its memory.
///
/// Every block of the batch goes through the thread block in turns, and every turn through these
/// hands, which work on different turns at the same time:
///
///   mover     draws the unit, fetches its bytes into a buffer                        -> full
///   planner   counts the sample, chooses the codebook                                -> planned
///   workers   add up the checksum, code levels 0 and 1; residues and codes come to
///             stand where the bytes were                                             -> listed
///   finisher  codes levels 2 and 3, writes the head, publishes the size              -> done
///   mover     waits for the payload's place, sends it there, fills the buffer again
///
/// The turns' bytes and payloads share two or three buffers. What the fast path declines ends a
/// session: the pipeline runs empty, all threads code the one block together, and the next session
/// starts behind it.
#pragma once

#include <cstdint>

#include "codec/gpu/block/encode_block.cuh"
#include "codec/gpu/block/fast_encode.cuh"
#include "codec/gpu/kernels/place_scan.cuh"
#include "codec/gpu/kernels/schedule.cuh"
#include "codec/gpu/kernels/tally.cuh"
#include "codec/gpu/tuning/tuning.cuh"

namespace cinch::codec::gpu {

inline constexpr uint32_t kWorkers = 13;  ///< Warps; 64 chunks of a whole block are 5 for each.
inline constexpr uint32_t kPlannerWarp = 13;
inline constexpr uint32_t kFinisherWarp = 14;
inline constexpr uint32_t kMoverWarp = 15;
static_assert(kEncodeTuning.threads == 32 * (kMoverWarp + 1));
static_assert(kWorkers * kWarpChunks * kChunkBytes >= format::kBlockBytes);

/// A block's bytes at kSourceOffset, later its payload.
inline constexpr uint32_t kBufferBytes = format::kMaxBlockPayloadBytes;
inline constexpr uint32_t kBuffers = 3;
inline constexpr uint32_t kListBytes = 12032;

/// Where lists are and how long they may be. Three buffers leave room for lists as long as usual
/// data have; two for any: 8-bit dtypes have two to four times as many symbols a block.
struct ListMemory {
  uint32_t offset;         ///< From the buffers' start.
  uint32_t level0_stride;  ///< Of the workers' segments.
  uint32_t level1_stride;
  uint32_t level1_offset;
  uint32_t level2_offset;
  uint32_t level2_capacity;

  __device__ constexpr uint32_t level0_capacity() const {
    return level0_stride - kListOffset - kListSlack;
  }
  __device__ constexpr uint32_t level1_capacity() const { return level1_stride - 4; }
};
__device__ __forceinline__ constexpr ListMemory ListMemoryOf(uint32_t buffers) {
  const uint32_t bytes = kListBytes + (kBuffers - buffers) * kBufferBytes;
  const uint32_t level0_stride = buffers == kBuffers ? 580 : 2592;
  const uint32_t level1_stride = buffers == kBuffers ? 168 : 480;
  const uint32_t level1_offset = buffers * kBufferBytes + kWorkers * level0_stride;
  const uint32_t level2_offset = level1_offset + kWorkers * level1_stride;
  return {buffers * kBufferBytes, level0_stride,
          level1_stride,          level1_offset,
          level2_offset,          buffers * kBufferBytes + bytes - level2_offset - kListSlack};
}

/// A turn's phases. kTaken: all workers have the bytes in registers, so that the buffer is free.
enum class Phase : uint32_t { kFull, kPlanned, kTaken, kListed, kDone };
inline constexpr uint32_t kPhases = 5;

/// What the mover keeps in registers while a session lasts.
struct MoverState {
  uint32_t ticket;    ///< Lane 0's.
  uint32_t resolved;  ///< Turns whose units are known.
};

struct EncodeShared {
  alignas(128) uint8_t buffers[kBuffers * kBufferBytes];
  alignas(16) uint8_t lists[kListBytes];
  alignas(16) uint32_t counts[256];  ///< The planner's.
  uint32_t selectors[256];           ///< CompactSelector of each byte of codes.
  uint32_t listed[2][16];            ///< Escapes of level 0 by worker, of even and odd turns.
  uint64_t hash_sums[kBuffers][16];  ///< By buffer and worker.
  uint32_t escaped[16];              ///< Of level 1.
  uint32_t shared_codes[16];  ///< Each worker's part of a byte that it shares; see CodeLevel1.
  uint64_t phases[kBuffers * kPhases];
  FastPlan plans[kBuffers];  ///< By buffer.
  Schedule schedule;
  // Of the session.
  uint32_t buffer_count;
  uint32_t has_bytes[kBuffers];  ///< 0 for a turn that ends the session.
  uint32_t stops;                ///< 1 once the finisher has found the session's end.
  uint32_t last_turn;            ///< Which that is.
  // The mover's, from session to session.
  MoverState mover;
  PlaceFinder finder;
  Tally tally;
  // A block that all threads code.
  uint32_t place_units;
  uint32_t placed;
};
// Two thread blocks a multiprocessor: 228 KiB less 1 KiB each, and a little that is not in here.
static_assert(sizeof(EncodeShared) + 128 <= 113 * 1024);
static_assert(sizeof(EncodeWorkspace) <= kBuffers * kBufferBytes);

/// A turn's buffer, and which of its phases' parities are the turn's.
struct Turn {
  uint32_t number;
  uint32_t slot;
  uint32_t parity;

  __device__ __forceinline__ Turn Next(uint32_t buffer_count) const {
    const bool wraps = slot + 1 == buffer_count;
    return {number + 1, wraps ? 0 : slot + 1, wraps ? parity ^ 1 : parity};
  }
  __device__ __forceinline__ Turn Last(uint32_t buffer_count) const {
    return {number - 1, slot == 0 ? buffer_count - 1 : slot - 1, slot == 0 ? parity ^ 1 : parity};
  }
};

__device__ __forceinline__ uint32_t PhaseOf(const EncodeShared& shared, const Turn& turn,
                                            Phase phase) {
  return SharedAddress(shared.phases) + 8 * (kPhases * turn.slot + static_cast<uint32_t>(phase));
}
__device__ __forceinline__ void Await(const EncodeShared& shared, const Turn& turn, Phase phase) {
  AwaitPhase(PhaseOf(shared, turn, phase), turn.parity);
}
/// All lanes: what all of them did is released to whoever waits for the phase.
__device__ __forceinline__ void WarpArrive(const EncodeShared& shared, const Turn& turn,
                                           Phase phase) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) Arrive(PhaseOf(shared, turn, phase));
}
__device__ __forceinline__ uint32_t BufferOf(const EncodeShared& shared, const Turn& turn) {
  return SharedAddress(shared.buffers) + turn.slot * kBufferBytes;
}

/// A word that another warp may change.
__device__ __forceinline__ uint32_t LoadVolatile(const uint32_t& word) {
  return *static_cast<const volatile uint32_t*>(&word);
}

/// Whether the fast path looks at a block.
__device__ __forceinline__ bool IsForFastEncode(const EncodeTask& task) {
  return task.base == nullptr && task.length_bytes % 32 == 0 && IsAligned(task.bytes, 16) &&
         (FastKindOf(task.dtype) != FastKind::kNone || task.dtype == CINCH_DTYPE_AUTO);
}

__device__ __forceinline__ EncodeTask TaskOf(const PlanItem& item, uint32_t block) {
  const uint64_t begin = uint64_t{block} * format::kBlockBytes;
  return {item.input + begin, format::BlockLength(item.input_bytes, block),      item.dtype, block,
          item.checksum != 0, item.base == nullptr ? nullptr : item.base + begin};
}

}  // namespace cinch::codec::gpu
