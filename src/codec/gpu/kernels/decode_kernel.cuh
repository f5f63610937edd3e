// SPDX-License-Identifier: Apache-2.0
/// @file decode_kernel.cuh
/// Decompresses a batch of untrusted frames, a block a thread block. See decode_shared.cuh.
#pragma once

#include <cstdint>

#include "codec/gpu/block/decode_block.cuh"
#include "codec/gpu/block/fast_decode.cuh"
#include "codec/gpu/kernels/decode_loader.cuh"
#include "codec/gpu/kernels/decode_scout.cuh"
#include "codec/gpu/kernels/decode_shared.cuh"
#include "codec/gpu/tuning/tuning.cuh"

namespace cinch::codec::gpu {

/// A block that is not one for the fast path, from its payload in memory. Its workspace is the
/// block's slot, where the payload is also, and the lists. By all decoders.
inline __device__ __noinline__ void SyncDecodeGeneral(uint32_t turn, DecodeShared* shared) {
  const DecoderTeam team;
  Job* job = &shared->jobs[turn % kJobs];
  const Errand& errand = job->errand;
  DecodeWorkspace* workspace = shared->workspace(turn);
  const DecodeTask task{errand.payload,
                        errand.payload_bytes,
                        errand.length_bytes,
                        errand.unit.block,
                        errand.item.checksum != 0,
                        errand.item.base == nullptr
                            ? nullptr
                            : errand.item.base + uint64_t{errand.unit.block} * format::kBlockBytes};
  team.Sync();  // The lists may still be read.
  uint64_t hash = 0;
  const Status status = SyncDecodeBlock(team, task, workspace, &hash);
  if (status == CINCH_OK) {
    CopyBytes(team, errand.output, workspace->original, task.length_bytes);
  }
  if (team.thread() == 0) {
    job->status = status;
    job->hash = hash;
  }
  FenceCopies();
  team.Sync();
}

/// By all decoders. False when the block is not valid.
template <FastFormat kFormat, bool kWide>
__device__ __forceinline__ bool SyncDecodeCascade(const FastTask& task, DecodeShared* shared) {
  return SyncDecodeFast<kFormat, kWide>(task, &shared->fast,
                                        reinterpret_cast<FastLists*>(shared->lists));
}

/// A job for the fast path, by all decoders. False when the block is not valid.
__device__ __forceinline__ bool SyncDecodeJob(uint32_t route, const FastTask& task,
                                              DecodeShared* shared) {
  switch (route) {
    case RouteOf(FastFormat::kByteOf4, false):
      return SyncDecodeCascade<FastFormat::kByteOf4, false>(task, shared);
    case RouteOf(FastFormat::kByteOf4, true):
      return SyncDecodeCascade<FastFormat::kByteOf4, true>(task, shared);
    case RouteOf(FastFormat::kByteOf5, false):
      return SyncDecodeCascade<FastFormat::kByteOf5, false>(task, shared);
    case RouteOf(FastFormat::kByteOf5, true):
      return SyncDecodeCascade<FastFormat::kByteOf5, true>(task, shared);
    case RouteOf(FastFormat::kByteOf8, false):
      return SyncDecodeCascade<FastFormat::kByteOf8, false>(task, shared);
    case RouteOf(FastFormat::kByteOf8, true):
      return SyncDecodeCascade<FastFormat::kByteOf8, true>(task, shared);
    case RouteOf(FastFormat::kHalfOf5, false):
      return SyncDecodeCascade<FastFormat::kHalfOf5, false>(task, shared);
    case RouteOf(FastFormat::kHalfOf5, true):
      return SyncDecodeCascade<FastFormat::kHalfOf5, true>(task, shared);
    case RouteOf(FastFormat::kHalfOf8, true):
      return SyncDecodeCascade<FastFormat::kHalfOf8, true>(task, shared);
    case RouteOf(FastFormat::kWordOf8, false):
      return SyncDecodeCascade<FastFormat::kWordOf8, false>(task, shared);
    case RouteOf(FastFormat::kWordOf8, true):
      return SyncDecodeCascade<FastFormat::kWordOf8, true>(task, shared);
    case RouteOf(FastFormat::kLongOf8, false):
      return SyncDecodeCascade<FastFormat::kLongOf8, false>(task, shared);
    case RouteOf(FastFormat::kLongOf8, true):
      return SyncDecodeCascade<FastFormat::kLongOf8, true>(task, shared);
    case Route::kStored:
      WarpCopyStored(task);
      return true;
    case Route::kConstant:
      WarpFillConstant(task);
      return true;
    default:
      return true;
  }
}

/// The decoders, from the launch's start to its end.
__device__ __forceinline__ void SyncDecode(DecodeShared* shared) {
  const uint32_t warp = threadIdx.x / 32;
  const uint32_t lane = threadIdx.x % 32;
  for (uint32_t turn = 0;; ++turn) {
    AwaitPhase(SharedAddress(&shared->ready[turn % kSlots]), ParityOf(turn, kSlots));
    Job* job = &shared->jobs[turn % kJobs];
    const uint32_t route = job->route;
    if (route == Route::kEnd) return;
    const FastTask task{&job->plan, SharedAddress(shared->slot(turn)), job->errand.output,
                        job->errand.item.checksum != 0, &job->hash_shares[warp]};
    bool valid = true;
    // The route that most blocks take is not looked up in a table.
    if (route == RouteOf(FastFormat::kHalfOf8, false)) {
      valid = SyncDecodeCascade<FastFormat::kHalfOf8, false>(task, shared);
    } else if (route == Route::kGeneral) {
      SyncDecodeGeneral(turn, shared);
    } else {
      valid = SyncDecodeJob(route, task, shared);
    }
    if (!valid && threadIdx.x == 0) job->status = CINCH_ERROR_FRAME_BLOCK;
    __syncwarp();
    if (lane == 0) Arrive(SharedAddress(&shared->done[turn % kSlots]));
  }
}

__device__ __forceinline__ void SyncStartShared(DecodeShared* shared) {
  if (threadIdx.x < 256) {
    shared->fast.merge_selectors[threadIdx.x] = MergeSelector(threadIdx.x);
    shared->fast.keep_selectors[threadIdx.x] = KeepSelector(threadIdx.x);
  }
  if (threadIdx.x < kFastDtypes) {
    shared->fast.dtypes[threadIdx.x] = FastDtype::Of(threadIdx.x).word;
  }
  if (threadIdx.x == 32 * kScoutWarp) {
    for (uint32_t i = 0; i < kErrandBoxes; ++i) {
      InitPhases(SharedAddress(&shared->posted[i]), 1);
      InitPhases(SharedAddress(&shared->taken[i]), kLoaders);
    }
    for (uint32_t i = 0; i < kSlots; ++i) {
      InitPhases(SharedAddress(&shared->loaded[i]), 1);
      InitPhases(SharedAddress(&shared->ready[i]), 1);
      InitPhases(SharedAddress(&shared->done[i]), FastDecode::kWarps);
    }
  }
  __syncthreads();
}

/// The kernel's work, by all threads.
__device__ __forceinline__ void SyncDecodeBatch(const BatchParameters& batch,
                                                DecodeShared* shared) {
  SyncStartShared(shared);
  const uint32_t warp = threadIdx.x / 32;
  if (warp == kScoutWarp) {
    WarpScout(batch, shared);
  } else if (warp >= kFirstLoaderWarp) {
    WarpLoader(batch, warp - kFirstLoaderWarp, shared);
  } else {
    SyncDecode(shared);
  }
  // Everybody has heard of the scout's verdict by now.
  if (shared->schedule.batch_status == CINCH_OK) SyncEndSchedule(batch);
}

}  // namespace cinch::codec::gpu
