// SPDX-License-Identifier: Apache-2.0
/// @file encode_window.cuh
/// What happens in the window of a turn (encode_shared.cuh), before its block can be coded.
#pragma once

#include <cstdint>

#include "codec/gpu/block/fast_lists.cuh"
#include "codec/gpu/kernels/encode_sender.cuh"
#include "codec/gpu/kernels/encode_shared.cuh"

namespace cinch::codec::gpu {

struct TailSync {
  __device__ __forceinline__ void operator()() const { SyncPart<1>(32 * kTailWarps); }
};
struct BlockSync {
  __device__ __forceinline__ void operator()() const { __syncthreads(); }
};
struct WarpSync {
  __device__ __forceinline__ void operator()() const { __syncwarp(); }
};

__device__ __forceinline__ uint32_t StageAddress(const EncodeShared& shared, uint32_t stage) {
  return SharedAddress(shared.stages) + stage * kStageBytes;
}

/// By one warp of kShapes: the windows of one shape.
template <FastKind kKind, uint32_t kShape>
__device__ __forceinline__ void WarpPlanShape(EncodeShared* shared, uint32_t elements,
                                              uint32_t odd) {
  const uint32_t samples = elements / 8;
  SampleCounts found;
  const bool several = FindRange<FastTraits<kKind>::kSymbolBits>(shared->counts, samples, &found);
  const ChosenShape chosen = SearchShape<kShape>(found);
  constexpr uint32_t kBits = kShape == 0 ? 2 : kShape == 2 ? 3 : 1;
  CodedShape* shape = &shared->shapes[odd][kShape];
  WarpStoreShape<kBits>(chosen, shape);
  if (threadIdx.x % 32 == 0) {
    shared->costs[kShape] = chosen.cost_bits;
    // Blocks that may be sparse are for others.
    const bool many_zeros =
        FastTraits<kKind>::kElementBytes > 1 && format::HasManyZeros(samples, found.zeroes);
    if (kShape == 0) shared->several = several && !many_zeros ? 1 : 0;
    shape->coded_offset = CodeOffset<kKind>(elements) + format::FieldBytes(kBits, elements);
  }
}
template <FastKind kKind>
__device__ __forceinline__ void WarpPlan(EncodeShared* shared, uint32_t warp, uint32_t elements,
                                         uint32_t odd) {
  if (warp == 0) WarpPlanShape<kKind, 0>(shared, elements, odd);
  if (warp == 1) WarpPlanShape<kKind, 1>(shared, elements, odd);
  if (warp == 2) WarpPlanShape<kKind, 2>(shared, elements, odd);
  if (warp == 3) WarpPlanShape<kKind, 3>(shared, elements, odd);
}

/// By the first tail thread: a payload's size is known.
__device__ __forceinline__ void PublishSize(const BatchParameters& batch,
                                            const EncodeShared& shared, uint32_t turn,
                                            uint32_t payload_bytes) {
  const Unit& unit = shared.schedule.units[turn % kRing];
  StoreRelaxed(batch.scratch.block_states + unit.first_unit + unit.block,
               StateWord(shared.schedule.epoch, BlockStage::kOwn,
                         payload_bytes / format::kPayloadUnitBytes));
}

/// By one tail warp: level 3, what is stored raw, and the head. Returns the payload's size, and
/// makes it only if it is less than that of a stored one.
__device__ __forceinline__ uint32_t WarpEndCascade(const BatchParameters& batch,
                                                   EncodeShared* shared, uint32_t stage,
                                                   const CodedShape& shape, uint32_t codes3,
                                                   uint32_t listed2, uint32_t stored_bytes) {
  const uint32_t lane = threadIdx.x % 32;
  const StagedBlock& staged = shared->staged;
  const uint32_t list = SharedAddress(shared->list);
  const uint32_t address = StageAddress(*shared, stage);
  const ListJob job{list, listed2, address + codes3, SharedAddress(shared->selectors), 0};
  const uint32_t raws =
      SyncCodeLevel<3, 2, 1, true>(job, PairWindows<3>(shape), shared->listed[2], 0, WarpSync{});
  const uint32_t raws_offset = codes3 + format::CodeListBytes(listed2);
  const uint32_t end = raws_offset + raws;
  const uint32_t payload_bytes = (end + 15) / 16 * 16;
  if (lane == 0) shared->payload_bytes = payload_bytes;
  if (payload_bytes >= stored_bytes) return payload_bytes;
  if (lane == 0) PublishSize(batch, *shared, staged.turn, payload_bytes);
  for (uint32_t i = lane; i < raws; i += 32) {
    StoreShared8(address + raws_offset + i, LoadShared8(list + i));
  }
  if (lane < payload_bytes - end) StoreShared8(address + end + lane, 0);
  if (lane == 0) {
    const uint32_t dtype = shared->blocks[staged.turn % kRing].dtype;
    const uint32_t tag = static_cast<uint32_t>(format::BlockMode::kCascade) | (dtype << 8) |
                         (shape.level0_bits << 16);
    const uint32_t codebook = shape.window_start(0) | (shape.window_start(1) << 8) |
                              (shape.window_start(2) << 16) | (shape.window_start(3) << 24);
    StoreShared128(address, make_uint4(static_cast<uint32_t>(staged.hash), tag, codebook,
                                       staged.listed[0] | (staged.listed[1] << 16)));
    StoreShared64(address + 16, listed2 | (raws << 16), 0);
    shared->pending[stage] = {staged.hash, staged.turn, payload_bytes};
  }
  return payload_bytes;
}

/// By the tail warps: stages a stored block, from its original bytes.
__device__ __forceinline__ void StageStored(const BatchParameters& batch, EncodeShared* shared,
                                            uint32_t stage, uint32_t tail_thread,
                                            uint32_t stored_bytes) {
  const StagedBlock& staged = shared->staged;
  const TurnBlock& block = shared->blocks[staged.turn % kRing];
  const uint32_t address = StageAddress(*shared, stage);
#pragma unroll 1
  for (uint32_t at = 16 * tail_thread; at < block.length_bytes; at += 16 * 32 * kTailWarps) {
    StoreShared128(address + format::kStoredDataOffset + at, LoadStream(block.bytes + at));
  }
  if (tail_thread == 0) {
    StoreShared128(address, make_uint4(static_cast<uint32_t>(staged.hash), 0, 0, 0));
    PublishSize(batch, *shared, staged.turn, stored_bytes);
    shared->pending[stage] = {staged.hash, staged.turn, stored_bytes};
  }
}

/// By the tail warps: what is left to do of the block in `stage` that shared->staged tells of,
/// whose escapes of level 1 are the list.
__device__ __forceinline__ void FinishBlock(const BatchParameters& batch, EncodeShared* shared,
                                            uint32_t stage, uint32_t odd) {
  const uint32_t tail_warp = __shfl_sync(kAllLanes, threadIdx.x / 32, 0) - kTailWarp;
  const StagedBlock& staged = shared->staged;
  const uint32_t stored_bytes =
      format::StoredPayloadBytes(shared->blocks[staged.turn % kRing].length_bytes);
  bool stored = staged.stored;
  if (!stored) {
    const CodedShape& shape = shared->shapes[odd][staged.shape];
    const uint32_t codes2 = staged.coded_offset + format::CodeListBytes(staged.listed[0]);
    const uint32_t codes3 = codes2 + format::CodeListBytes(staged.listed[1]);
    const ListJob job{SharedAddress(shared->list), staged.listed[1],
                      StageAddress(*shared, stage) + codes2, SharedAddress(shared->selectors),
                      shape.padding[3]};
    const uint32_t listed2 = SyncCodeLevel<2, 3, kTailWarps, true>(
        job, PairWindows<2>(shape), shared->listed[2], tail_warp, TailSync{});
    if (tail_warp == 0) {
      WarpEndCascade(batch, shared, stage, shape, codes3, listed2, stored_bytes);
    }
    // It may be larger than the block.
    if (codes3 + format::CodeListBytes(staged.listed[1]) + staged.listed[1] + 16 >= stored_bytes) {
      TailSync{}();
      stored = shared->payload_bytes >= stored_bytes;
    }
  }
  if (stored) {
    StageStored(batch, shared, stage, threadIdx.x - 32 * kTailWarp, stored_bytes);
  }
}

}  // namespace cinch::codec::gpu
