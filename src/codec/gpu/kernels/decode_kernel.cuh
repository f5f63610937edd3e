// SPDX-License-Identifier: Apache-2.0
/// @file decode_kernel.cuh
/// Decompresses a batch of untrusted frames, a block a thread block.
#pragma once

#include <cstdint>

#include "codec/gpu/block/decode_block.cuh"
#include "codec/gpu/block/fast_decode.cuh"
#include "codec/gpu/kernels/decode_pipeline.cuh"
#include "codec/gpu/kernels/errors.cuh"
#include "codec/gpu/kernels/progress.cuh"
#include "codec/gpu/kernels/schedule.cuh"
#include "codec/gpu/kernels/tally.cuh"
#include "codec/gpu/tuning/tuning.cuh"
#include "codec/gpu/warp/team.cuh"

namespace cinch::codec::gpu {

using DecodeTeam = CtaTeam<kDecodeTuning.threads>;

struct DecodeShared {
  DecodePipeline pipeline;
  DecodeWorkspace workspace;
  uint32_t selectors[256];  ///< MergeSelector of each byte of codes.
  Schedule schedule;
};
// Two thread blocks a multiprocessor: 228 KiB less 1 KiB each.
static_assert(sizeof(DecodeShared) <= 113 * 1024);

/// What became of a block. The hash is valid in thread 0.
struct DecodedBlock {
  uint64_t error_key;
  uint64_t hash;
};

/// By one thread: the verdict on an item whose blocks are all done.
__device__ __forceinline__ void FinishOutput(const PlanItem& item, const ItemOutcome& outcome,
                                             cinch_cuda_result* result) {
  int32_t status = outcome.status;
  if (status == CINCH_OK && outcome.hash_sum != item.content_hash) {
    status = CINCH_ERROR_FRAME_CHECKSUM;
  }
  *result = {status == CINCH_OK ? item.original_bytes : 0, static_cast<cinch_status>(status), 0};
}

/// True when the padding behind the index, which the last block looks at, is not zero.
__device__ __forceinline__ bool HasIndexPadding(const PlanItem& item, uint32_t block) {
  if (block != item.blocks - 1) return false;
  const auto* index = reinterpret_cast<const uint32_t*>(item.input + sizeof(format::FrameHeader));
  uint32_t padding = 0;
  const uint64_t end = format::IndexBytes(item.blocks) / 4;
  for (uint64_t i = item.blocks; i < end; ++i) padding |= index[i];
  return padding != 0;
}

/// Decodes a block on the fast path when it is one for it: 1 for valid, 0 for not valid, both the
/// same for all threads, and -1 for another block.
__device__ __forceinline__ int SyncTryFastDecode(const DecodeTask& task, const uint8_t* slot,
                                                 uint8_t* output, DecodeShared* shared) {
  if (slot == nullptr || task.base != nullptr || task.length_bytes != format::kBlockBytes ||
      !IsAligned(output, 16)) {
    return -1;
  }
  const uint32_t payload = SharedAddress(slot);
  if (LoadShared32<4>(payload) != FastDecode::kTag) return -1;
  const FastHead head(payload);
  if (!head.IsUsual()) return -1;
  if (!head.IsValid(task.payload_bytes)) return 0;
  if (threadIdx.x == 0) shared->workspace.hash_sum = 0;
  return SyncFastDecode(head, payload, task.payload_bytes, SharedAddress(shared->selectors),
                        task.checksum, output, &shared->workspace)
             ? 1
             : 0;
}

/// Decodes a block whose index entry is sound. By all threads; ends with a barrier.
__device__ __forceinline__ DecodedBlock SyncDecodeOne(const DecodeTask& in_memory,
                                                      const uint8_t* slot, uint8_t* output,
                                                      DecodeShared* shared) {
  const DecodeTeam team;
  DecodeTask task = in_memory;
  if (slot != nullptr) task.bytes = slot;
  const auto block = static_cast<uint32_t>(task.index);
  const auto key_of = [&](Status status) {
    return status == CINCH_OK ? 0 : ErrorKey(ErrorRank::kBlock, block, status);
  };
  const int fast = SyncTryFastDecode(task, slot, output, shared);
  if (fast >= 0) {
    team.Sync();
    if (fast == 0) return {key_of(CINCH_ERROR_FRAME_BLOCK), 0};
    uint64_t hash = 0;
    if (task.checksum) {
      hash = format::FinishHash(shared->workspace.hash_sum, task.length_bytes, task.index);
    }
    const bool matches = static_cast<uint32_t>(hash) == LoadAligned<uint32_t>(task.bytes);
    return {key_of(matches ? CINCH_OK : CINCH_ERROR_FRAME_CHECKSUM), hash};
  }
  uint64_t hash = 0;
  const Status status = SyncDecodeBlock(team, task, &shared->workspace, &hash);
  if (status == CINCH_OK) {
    CopyBytes(team, output, shared->workspace.original, task.length_bytes);
  }
  team.Sync();
  return {key_of(status), hash};
}

/// One block from its payload to its place in the output. By all threads.
__device__ __forceinline__ void SyncDecodeUnit(const BatchParameters& batch, uint32_t turn,
                                               DecodeShared* shared, Tally* tally) {
  const DecodeTeam team;
  const Unit& unit = shared->schedule.units[turn % kRing];
  const PlanItem& item = shared->schedule.items[turn % kRing];
  DecodePipeline* pipeline = &shared->pipeline;
  cinch_cuda_result* result = batch.results + unit.item;
  const IndexEntry entry = CheckIndex(item, unit.block, pipeline->index_begin[turn % kRing],
                                      pipeline->index_end[turn % kRing]);
  const uint8_t* slot = SyncPayload(turn, entry, item, pipeline);
  if (item.blocks == 0) {
    if (team.thread() == 0) *result = {0, static_cast<cinch_status>(item.status), 0};
    return;
  }
  DecodedBlock decoded{0, 0};
  const uint64_t payload_bytes = entry.end_bytes - entry.begin_bytes;
  if (!entry.valid) {
    decoded.error_key = ErrorKey(ErrorRank::kIndex, unit.block, CINCH_ERROR_FRAME_INDEX);
  } else if (item.status != CINCH_OK) {
    decoded.error_key = ErrorKey(ErrorRank::kDestination, unit.block, item.status);
  } else if (payload_bytes > format::kMaxBlockPayloadBytes) {
    decoded.error_key = ErrorKey(ErrorRank::kBlock, unit.block, CINCH_ERROR_FRAME_BLOCK);
  } else {
    const DecodeTask task{
        PayloadOf(item, entry),
        static_cast<uint32_t>(payload_bytes),
        format::BlockLength(item.original_bytes, unit.block),
        unit.block,
        item.checksum != 0,
        item.base == nullptr ? nullptr : item.base + uint64_t{unit.block} * format::kBlockBytes};
    decoded =
        SyncDecodeOne(task, slot, item.output + uint64_t{unit.block} * format::kBlockBytes, shared);
  }
  if (team.thread() != 0) return;
  if (entry.valid && HasIndexPadding(item, unit.block)) {
    decoded.error_key = ErrorKey(ErrorRank::kPadding, unit.block, CINCH_ERROR_FRAME_RESERVED);
  }
  ItemState* state = batch.scratch.states + unit.item;
  if (batch.progress != nullptr && decoded.error_key == 0) {
    PublishBlock(item, unit.block, shared->schedule.epoch,
                 batch.scratch.block_states + unit.first_unit, state, batch.progress + unit.item);
  }
  tally->Add(decoded.error_key, decoded.hash);
  if (shared->schedule.units[(turn + 1) % kRing].item == unit.item) return;
  ItemOutcome outcome;
  if (tally->Flush(item, state, &outcome)) FinishOutput(item, outcome, result);
}

__global__ void __launch_bounds__(kDecodeTuning.threads, kDecodeTuning.min_ctas_per_sm)
    DecodeKernel(const __grid_constant__ BatchParameters batch) {
  extern __shared__ __align__(128) uint8_t shared_bytes[];
  auto* shared = reinterpret_cast<DecodeShared*>(shared_bytes);
  Schedule* schedule = &shared->schedule;
  if (!SyncStartSchedule<false>(batch, schedule)) return;
  if (threadIdx.x < 256) shared->selectors[threadIdx.x] = MergeSelector(threadIdx.x);
  const bool looks_after = threadIdx.x / 32 == kDecodeTuning.threads / 32 - 1;
  uint32_t ticket = 0;
  Tally tally;  // Thread 0's.
  if (looks_after) ticket = WarpStartPipeline(batch, schedule, &shared->pipeline);
  for (uint32_t turn = 0;; ++turn) {
    __syncthreads();
    if (schedule->units[turn % kRing].item == kNoItem) break;
    if (looks_after) {
      ticket = WarpAdvancePipeline(batch, turn, ticket, schedule, &shared->pipeline);
    }
    SyncDecodeUnit(batch, turn, shared, &tally);
  }
  SyncEndSchedule(batch);
}

}  // namespace cinch::codec::gpu
