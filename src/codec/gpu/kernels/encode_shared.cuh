// SPDX-License-Identifier: Apache-2.0
/// @file encode_shared.cuh
/// How a thread block that compresses divides its work and its memory.
///
/// Blocks go through a thread block in turns, one in each of three stages. In a turn's *window* a
/// few warps choose the new block's codebook, others code the last levels of the block before and
/// make its head, and one sends the block before that to its place and finds out which block comes
/// next. Then all warps code levels 0 and 1 of the new block, while their part of the next one is
/// on its way to their registers.
///
/// Runs of blocks of one dtype are *sessions*, each with code of its own. What the fast path
/// declines ends a session, too: all threads code the one block together then.
#pragma once

#include <cstdint>

#include "codec/gpu/block/encode_block.cuh"
#include "codec/gpu/block/fast_detect.cuh"
#include "codec/gpu/block/fast_encode.cuh"
#include "codec/gpu/kernels/place_scan.cuh"
#include "codec/gpu/kernels/schedule.cuh"
#include "codec/gpu/kernels/tally.cuh"
#include "codec/gpu/tuning/tuning.cuh"

namespace cinch::codec::gpu {

inline constexpr uint32_t kEncodeWarps = kEncodeTuning.threads / 32;
/// Bytes of a block that a warp codes.
inline constexpr uint32_t kTileBytes = format::kBlockBytes / kEncodeWarps;
static_assert(kTileBytes == kTileChunks * kChunkBytes);

// Who does what in a window. Warps 0 to 3 choose a codebook, one of each shape.
inline constexpr uint32_t kResolverWarp = 4;
inline constexpr uint32_t kDetectWarp = 5;  ///< The first of one for each candidate of auto.
inline constexpr uint32_t kSenderWarp = 12;
inline constexpr uint32_t kTailWarp = 13;  ///< The first of kTailWarps.
inline constexpr uint32_t kTailWarps = 3;
static_assert(kTailWarp + kTailWarps == kEncodeWarps);
static_assert(kDetectWarp + kDetectCandidates == kSenderWarp);

inline constexpr uint32_t kStages = 3;
/// Larger payloads run on into the next stage; the last one holds any.
inline constexpr uint32_t kStageBytes = 30464;
inline constexpr uint32_t kLastStageBytes = format::kMaxBlockPayloadBytes + 32;
/// Longer lists are for the plain path: 8-bit data with more symbols than level 0 can name.
inline constexpr uint32_t kListCapacity = 16384;

/// A turn's block, as all threads need it.
struct TurnBlock {
  const uint8_t* bytes;
  uint32_t length_bytes;
  uint32_t dtype;
  FastKind kind;  ///< kNone when it is not for the fast path, or there is none.
  bool detects;   ///< The item's dtype is auto: dtype and kind are a guess.
};

/// How a session ends: why its last turn's block is not coded, if it is not.
enum class SessionEnd : uint32_t {
  kCoded,       ///< Its levels 0 and 1 are.
  kDeclined,    ///< It is for all threads.
  kRedirected,  ///< Its dtype is another one.
};

/// What the tail warps have to know of a block whose levels 0 and 1 are coded.
struct StagedBlock {
  uint64_t hash;
  uint32_t turn;
  uint32_t listed[2];  ///< Escapes of levels 0 and 1.
  uint32_t coded_offset;
  uint32_t shape;  ///< Which of the turn's shapes.
  bool stored;
  bool large;  ///< May run on into the next stage.
};

/// A finished payload that waits for its place.
struct PendingBlock {
  uint64_t hash;
  uint32_t turn;
  uint32_t payload_bytes;  ///< 0 for none.
};

struct EncodeShared {
  alignas(128) uint8_t stages[(kStages - 1) * kStageBytes + kLastStageBytes];
  alignas(16) uint8_t list[kListCapacity + 32];  ///< Of one level after the other.
  alignas(16) uint32_t counts[256];
  uint32_t selectors[256];  ///< CompactSelector of each byte of codes.
  alignas(16) uint32_t costs[kShapes];
  alignas(16) CodedShape shapes[2][kShapes];  ///< Of even and odd turns of a session.
  uint32_t listed[3][kEncodeWarps];           ///< Escapes by warp: of level 0, 1, and 2.
  uint64_t hash_sums[kEncodeWarps];           ///< Of the warps' tiles.
  uint64_t hash;                              ///< Of the turn's block.
  uint32_t residues;  ///< The OR of sampled residues, where a dtype has several planes of them.
  uint32_t zeros;     ///< Sampled elements that are zero, where symbols do not tell.
  uint32_t several;   ///< Not 0 when the sample has more than one symbol, few of them 0.
  uint32_t payload_bytes;  ///< The tail warps'.
  SessionEnd end;
  uint32_t guessed_dtype;  ///< For auto: that of the last block.
  DtypeEstimate estimates[kDetectCandidates];
  StagedBlock staged;
  PendingBlock pending[kStages];
  TurnBlock blocks[kRing];
  Schedule schedule;
  uint32_t ticket;    ///< Of the next turn that is not resolved.
  uint32_t resolved;  ///< Turns whose units are known.
  // The sender's.
  PlaceFinder finder;
  Tally tally;
  // Of a block that all threads code.
  uint32_t place_units;
  uint32_t placed;
};
// Two thread blocks a multiprocessor: 228 KiB less 1 KiB each, less what is static.
static_assert(sizeof(EncodeShared) <= 113 * 1024 - 128);
static_assert(sizeof(EncodeWorkspace) <= (kStages - 1) * kStageBytes + kLastStageBytes);

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
