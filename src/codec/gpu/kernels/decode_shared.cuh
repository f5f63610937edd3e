// SPDX-License-Identifier: Apache-2.0
/// @file decode_shared.cuh
/// What the parts of a decoding thread block share:
///
///   the scout    a warp that takes tickets and finds out which block of which item they stand for,
///                and where its payload is (decode_scout.cuh)
///   loaders      two warps that bring payloads to shared memory, look at their heads, and add up
///                what became of blocks (decode_loader.cuh)
///   decoders     the first 16 warps, which do the rest (decode_kernel.cuh)
///
///   scout --errands--> loaders --jobs--> decoders --slots and verdicts--> loaders
#pragma once

#include <cstdint>

#include "codec/gpu/block/fast_decode.cuh"
#include "codec/gpu/kernels/errors.cuh"
#include "codec/gpu/kernels/schedule.cuh"
#include "codec/gpu/tuning/tuning.cuh"
#include "codec/gpu/warp/phases.cuh"
#include "codec/gpu/warp/pipeline.cuh"

namespace cinch::codec::gpu {

inline constexpr uint32_t kLoaders = 2;
inline constexpr uint32_t kSlots = kLoaders;
inline constexpr uint32_t kJobs = 4;
inline constexpr uint32_t kErrandBoxes = 2;
inline constexpr uint32_t kMaxErrands = 8;
inline constexpr uint32_t kScoutWarp = FastDecode::kWarps;
inline constexpr uint32_t kFirstLoaderWarp = FastDecode::kWarps + 1;
static_assert(kDecodeTuning.threads == 32 * (FastDecode::kWarps + 1 + kLoaders));

/// A block to decode, as the index describes it.
struct Errand {
  PlanItem item;
  Unit unit;
  uint32_t payload_bytes;
  uint32_t length_bytes;
  const uint8_t* payload;
  uint8_t* output;
  uint64_t error_key;  ///< Not 0: there is nothing to decode.
};
inline constexpr uint32_t kErrandWords = sizeof(Errand) / 4;
static_assert(sizeof(Errand) % 4 == 0 && kErrandWords <= 32);

/// Errands of a ticket. `count` 0 says that there are no more.
struct ErrandBox {
  uint32_t count;
  Errand errands[kMaxErrands];
};

/// What decoders do with a block: one of these numbers, or from kCascade on a format, twice, and 1
/// more for codes of 3 bits at level 0.
struct Route {
  static constexpr uint32_t kEnd = 0;
  static constexpr uint32_t kNothing = 1;
  static constexpr uint32_t kStored = 2;
  static constexpr uint32_t kConstant = 3;
  static constexpr uint32_t kGeneral = 4;
  static constexpr uint32_t kCascade = 5;
};
constexpr uint32_t RouteOf(FastFormat format, bool wide) {
  return Route::kCascade + 2 * static_cast<uint32_t>(format) + (wide ? 1 : 0);
}

/// A block on its way through the thread block.
struct Job {
  Errand errand;
  uint32_t route;
  uint32_t checksum;  ///< What the payload says.
  Status status;      ///< What the decoders say, or the loader when there is nothing to decode.
  uint64_t hash;      ///< For kGeneral.
  uint64_t hash_shares[FastDecode::kWarps];
  DecodePlan plan;
};

struct DecodeShared {
  /// Payloads. The general path works in the lists and the slot of its own block together.
  alignas(128) uint8_t slot0[kDecodeSlotBytes];
  alignas(128) uint8_t lists[kDecodeListBytes];
  alignas(128) uint8_t slot1[kDecodeSlotBytes];
  FastShared fast;
  Job jobs[kJobs];
  ErrandBox boxes[kErrandBoxes];
  Schedule schedule;
  uint64_t posted[kErrandBoxes];  ///< Barriers: the scout's, when a box is full,
  uint64_t taken[kErrandBoxes];   ///< each loader's, when it is empty,
  uint64_t loaded[kSlots];        ///< the copy engine's,
  uint64_t ready[kSlots];         ///< a loader's, when a job can be done,
  uint64_t done[kSlots];          ///< and each decoder warp's.

  __device__ __forceinline__ uint8_t* slot(uint32_t turn) {
    return turn % kSlots == 0 ? slot0 : slot1;
  }
  __device__ __forceinline__ DecodeWorkspace* workspace(uint32_t turn) {
    return reinterpret_cast<DecodeWorkspace*>(turn % kSlots == 0 ? slot0 : lists);
  }
};
static_assert(kSlots == 2 && kDecodeSlotBytes % 128 == 0 && kDecodeListBytes % 128 == 0);
static_assert(kDecodeSlotBytes >= format::kMaxBlockPayloadBytes + kVectorSlackBytes);
static_assert(kDecodeListBytes >= sizeof(FastLists));
static_assert(kDecodeSlotBytes + kDecodeListBytes >= sizeof(DecodeWorkspace));
// Two thread blocks a multiprocessor: 228 KiB less 1 KiB each.
static_assert(sizeof(DecodeShared) <= 113 * 1024);

/// The parity of the phase that ends with use `turn` of a barrier that `uses` turns share.
__device__ __forceinline__ uint32_t ParityOf(uint32_t turn, uint32_t uses) {
  return turn / uses % 2;
}

}  // namespace cinch::codec::gpu
