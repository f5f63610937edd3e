// SPDX-License-Identifier: Apache-2.0
/// @file encode_workers.cuh
/// The hands of encode_shared.cuh that code: workers, planner and finisher.
#pragma once

#include <cstdint>

#include "codec/gpu/kernels/encode_shared.cuh"

namespace cinch::codec::gpu {

/// The escapes of the warps before this one, and of all.
struct WarpPrefix {
  uint32_t before;
  uint32_t total;
};
__device__ __forceinline__ WarpPrefix PrefixOf(const uint32_t* counts, uint32_t warp) {
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t count = lane < kWorkers ? counts[lane] : 0;
  return {__reduce_add_sync(kAllLanes, lane < warp ? count : 0),
          __reduce_add_sync(kAllLanes, count)};
}

/// By a worker: waits for a turn's bytes, takes its share of them and adds up their checksum.
__device__ __forceinline__ ChunkShare TakeShare(EncodeShared* shared, const Turn& turn,
                                                uint32_t warp, FastTile* tile) {
  ChunkShare share{0, 0, 0};
  Await(*shared, turn, Phase::kFull);
  const bool has_bytes = shared->has_bytes[turn.slot] != 0;
  if (has_bytes) {
    share = ShareOfWarp(shared->plans[turn.slot].length_bytes, warp, kWorkers);
    TakeTile(BufferOf(*shared, turn), share, tile);
  }
  WarpArrive(*shared, turn, Phase::kTaken);
  if (has_bytes && shared->schedule.items[turn.number % kRing].checksum != 0) {
    const uint64_t sum = HashTile(*tile, share);
    if (threadIdx.x % 32 == 0) shared->hash_sums[turn.slot][warp] = sum;
  }
  return share;
}

/// By a worker: level 0. Returns the length of its list.
__device__ __forceinline__ uint32_t WorkLevel0(EncodeShared* shared, const Turn& turn,
                                               uint32_t buffer_count, uint32_t warp,
                                               const ChunkShare& share, FastTile* tile) {
  const ListMemory memory = ListMemoryOf(buffer_count);
  const uint32_t list =
      SharedAddress(shared->buffers) + memory.offset + warp * memory.level0_stride + kListOffset;
  const uint32_t listed =
      CodeLevel0(shared->plans[turn.slot], BufferOf(*shared, turn),
                 SharedAddress(shared->selectors), list, memory.level0_capacity(), share, tile);
  if (threadIdx.x % 32 == 0) {
    shared->listed[turn.number % 2][warp] =
        listed <= memory.level0_capacity() ? listed : 4 * kBufferBytes;
  }
  return listed;
}

/// By a worker, after all have listed: level 1.
__device__ __forceinline__ void WorkLevel1(EncodeShared* shared, const Turn& turn,
                                           uint32_t buffer_count, uint32_t warp, uint32_t listed) {
  const ListMemory memory = ListMemoryOf(buffer_count);
  FastPlan* plan = &shared->plans[turn.slot];
  const uint32_t lane = threadIdx.x % 32;
  const WarpPrefix prefix = PrefixOf(shared->listed[turn.number % 2], warp);
  const uint32_t codes_end = plan->coded_offset + format::CodeListBytes(prefix.total);
  if (codes_end > kBufferBytes) {  // always so when one list had no room
    if (warp == 0 && lane == 0) plan->overflows = 1;
    return;
  }
  const uint32_t buffers = SharedAddress(shared->buffers);
  const WarpList list{buffers + memory.offset + warp * memory.level0_stride, listed, prefix.before};
  const uint32_t escaped = CodeLevel1(
      *plan, list, BufferOf(*shared, turn) + plan->coded_offset,
      SharedAddress(&shared->shared_codes[warp]), SharedAddress(shared->selectors),
      buffers + memory.level1_offset + warp * memory.level1_stride, memory.level1_capacity());
  if (lane == 0) {
    shared->escaped[warp] = escaped;
    if (escaped > memory.level1_capacity()) plan->overflows = 1;
  }
}

/// A worker's session.
__device__ __forceinline__ void RunWorker(EncodeShared* shared, uint32_t first_turn) {
  const uint32_t warp = __shfl_sync(kAllLanes, threadIdx.x / 32, 0);
  const uint32_t buffer_count = shared->buffer_count;
  for (Turn turn{first_turn, 0, 0};; turn = turn.Next(buffer_count)) {
    FastTile tile;
    const ChunkShare share = TakeShare(shared, turn, warp, &tile);
    Await(*shared, turn, Phase::kPlanned);
    const FastVerdict verdict = shared->plans[turn.slot].verdict;
    if (verdict == FastVerdict::kDeclined) return;
    // From here on the buffer may be written to.
    Await(*shared, turn, Phase::kTaken);
    uint32_t listed = 0;
    if (verdict == FastVerdict::kCascade) {
      listed = WorkLevel0(shared, turn, buffer_count, warp, share, &tile);
    }
    SyncPart<1>(32 * kWorkers);
    if (turn.number != first_turn) {
      // The finisher is done with what it had from us.
      Await(*shared, turn.Last(buffer_count), Phase::kDone);
      if (LoadVolatile(shared->stops) != 0) return;
    }
    if (verdict == FastVerdict::kCascade) WorkLevel1(shared, turn, buffer_count, warp, listed);
    FenceCopies();
    WarpArrive(*shared, turn, Phase::kListed);
  }
}

/// The planner's session.
__device__ __forceinline__ void RunPlanner(EncodeShared* shared, uint32_t first_turn) {
  const uint32_t buffer_count = shared->buffer_count;
  for (Turn turn{first_turn, 0, 0};; turn = turn.Next(buffer_count)) {
    const uint32_t full = PhaseOf(*shared, turn, Phase::kFull);
    bool stops = false;
    while (!stops && !HasEndedSoon(full, turn.parity)) {
      stops = LoadVolatile(shared->stops) != 0;
    }
    stops = __any_sync(kAllLanes, stops);
    FastPlan* plan = &shared->plans[turn.slot];
    // When the session is over, workers may be waiting for a plan all the same.
    if (!stops && shared->has_bytes[turn.slot] != 0) {
      WarpPlanFast(BufferOf(*shared, turn) + kSourceOffset, shared->counts, plan);
    } else if (threadIdx.x % 32 == 0) {
      plan->verdict = FastVerdict::kDeclined;
    }
    __syncwarp();
    const bool declined = plan->verdict == FastVerdict::kDeclined;
    WarpArrive(*shared, turn, Phase::kPlanned);
    if (declined) return;
  }
}

/// By the finisher: the block's hash from the workers' sums; in all lanes.
__device__ __forceinline__ uint64_t FinisherHash(const EncodeShared& shared, const Turn& turn) {
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t ring = turn.number % kRing;
  if (shared.schedule.items[ring].checksum == 0) return 0;
  const uint64_t sum = WarpSum64(lane < kWorkers ? shared.hash_sums[turn.slot][lane] : 0);
  return format::FinishHash(sum, shared.plans[turn.slot].length_bytes,
                            shared.schedule.units[ring].block);
}

/// By the finisher: puts the workers' lists of level 1 one behind the other and completes the bytes
/// of codes that they share. Returns the length, or more than there is room for.
__device__ __forceinline__ uint32_t GatherLists(EncodeShared* shared, const Turn& turn,
                                                const ListMemory& memory) {
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t listed = lane < kWorkers ? shared->listed[turn.number % 2][lane] : 0;
  const uint32_t before = ScanInclusive(listed) - listed;
  if (listed != 0 && before % 4 != 0) {
    const uint32_t at =
        BufferOf(*shared, turn) + shared->plans[turn.slot].coded_offset + before / 4;
    OrShared(at & ~3U, (shared->shared_codes[lane] & 0xFF) << (8 * (at & 3)));
  }
  const uint32_t escaped = lane < kWorkers ? shared->escaped[lane] : 0;
  const uint32_t end = ScanInclusive(escaped);
  const uint32_t total = __shfl_sync(kAllLanes, end, 31);
  if (total > memory.level2_capacity) return total;
  // Two lanes a worker, each every other word of its list.
  const uint32_t source = lane / 2;
  const uint32_t count = __shfl_sync(kAllLanes, escaped, source);
  const uint32_t buffers = SharedAddress(shared->buffers);
  const uint32_t from = buffers + memory.level1_offset + source * memory.level1_stride;
  const uint32_t to = buffers + memory.level2_offset + __shfl_sync(kAllLanes, end, source) - count;
#pragma unroll 4
  for (uint32_t at = 4 * (lane % 2); at < count; at += 8) {
    const uint32_t symbols = LoadShared32(from + at);
    StoreShared8<0>(to + at, symbols);
    if (at + 1 < count) StoreShared8<1>(to + at, symbols >> 8);
    if (at + 2 < count) StoreShared8<2>(to + at, symbols >> 16);
    if (at + 3 < count) StoreShared8<3>(to + at, symbols >> 24);
  }
  __syncwarp();
  return total;
}

/// By the finisher: the head of a stored payload, whose bytes are already there.
__device__ __forceinline__ uint32_t FinishStored(const FastPlan& plan, uint32_t buffer) {
  if (threadIdx.x % 32 == 0) {
    StoreShared128(buffer, make_uint4(static_cast<uint32_t>(plan.hash), 0, 0, 0));
  }
  return format::StoredPayloadBytes(plan.length_bytes);
}

/// By the finisher: levels 2 and 3, raw symbols and the head. Returns the payload's size, or 0 when
/// the block is declined.
__device__ __forceinline__ uint32_t FinishCascade(EncodeShared* shared, const Turn& turn,
                                                  const ListMemory& memory) {
  const uint32_t lane = threadIdx.x % 32;
  const FastPlan& plan = shared->plans[turn.slot];
  if (LoadVolatile(plan.overflows) != 0) return 0;
  const uint32_t buffer = BufferOf(*shared, turn);
  const uint32_t list = SharedAddress(shared->buffers) + memory.level2_offset;
  const uint32_t table = SharedAddress(shared->selectors);
  const uint32_t listed0 = PrefixOf(shared->listed[turn.number % 2], 0).total;
  const uint32_t listed1 = GatherLists(shared, turn, memory);
  const uint32_t codes2 = plan.coded_offset + format::CodeListBytes(listed0);
  const uint32_t codes3 = codes2 + format::CodeListBytes(listed1);
  // What may come after that: the same again, and all of them raw.
  const uint32_t most = codes3 + format::CodeListBytes(listed1) + listed1 + 16;
  if (listed1 > memory.level2_capacity || most > kBufferBytes) {
    if (lane == 0) shared->plans[turn.slot].overflows = 1;
    return 0;
  }
  const uint32_t listed2 =
      WarpCodeLevel<2, kLevel2Words>(plan, list, listed1, buffer + codes2, table);
  const uint32_t raws = WarpCodeLevel<3, kLevel3Words>(plan, list, listed2, buffer + codes3, table);
  const uint32_t raws_offset = codes3 + format::CodeListBytes(listed2);
  const uint32_t end = raws_offset + raws;
  const uint32_t payload_bytes = (end + 15) / 16 * 16;
  if (payload_bytes >= format::StoredPayloadBytes(plan.length_bytes)) return 0;
  for (uint32_t i = lane; i < raws; i += 32) {
    StoreShared8(buffer + raws_offset + i, LoadShared8(list + i));
  }
  if (lane < payload_bytes - end) StoreShared8(buffer + end + lane, 0);
  if (lane == 0) {
    const uint32_t tag = static_cast<uint32_t>(format::BlockMode::kCascade) | (plan.dtype << 8) |
                         (plan.level0_bits << 16);
    const uint32_t codebook = plan.window_start[0] | (plan.window_start[1] << 8) |
                              (plan.window_start[2] << 16) | (plan.window_start[3] << 24);
    StoreShared128(buffer, make_uint4(static_cast<uint32_t>(plan.hash), tag, codebook,
                                      listed0 | (listed1 << 16)));
    StoreShared64(buffer + 16, listed2 | (raws << 16), 0);
  }
  return payload_bytes;
}

/// By the finisher, after `listed`: makes the payload complete and its size known. False when the
/// block is declined.
__device__ __forceinline__ bool FinishTurn(const BatchParameters& batch, EncodeShared* shared,
                                           const Turn& turn, const ListMemory& memory) {
  FastPlan* plan = &shared->plans[turn.slot];
  const uint64_t hash = FinisherHash(*shared, turn);
  if (threadIdx.x % 32 == 0) plan->hash = hash;
  const uint32_t payload_bytes = plan->verdict == FastVerdict::kStored
                                     ? FinishStored(*plan, BufferOf(*shared, turn))
                                     : FinishCascade(shared, turn, memory);
  if (threadIdx.x % 32 == 0) {
    plan->payload_bytes = payload_bytes;
    if (payload_bytes != 0) {
      const Unit& unit = shared->schedule.units[turn.number % kRing];
      StoreRelaxed(batch.scratch.block_states + unit.first_unit + unit.block,
                   StateWord(shared->schedule.epoch, BlockStage::kOwn,
                             payload_bytes / format::kPayloadUnitBytes));
    }
  }
  FenceCopies();
  return payload_bytes != 0;
}

/// The finisher's session. It says which turn is the last.
__device__ __forceinline__ void RunFinisher(const BatchParameters& batch, EncodeShared* shared,
                                            uint32_t first_turn) {
  const uint32_t buffer_count = shared->buffer_count;
  const ListMemory memory = ListMemoryOf(buffer_count);
  for (Turn turn{first_turn, 0, 0};; turn = turn.Next(buffer_count)) {
    Await(*shared, turn, Phase::kPlanned);
    FastPlan* plan = &shared->plans[turn.slot];
    bool goes_on = plan->verdict != FastVerdict::kDeclined;
    if (goes_on) {
      Await(*shared, turn, Phase::kListed);
      goes_on = FinishTurn(batch, shared, turn, memory);
    }
    if (!goes_on && threadIdx.x % 32 == 0) {
      plan->payload_bytes = 0;
      // The blocks to come will want as much room.
      if (plan->verdict == FastVerdict::kCascade && plan->overflows != 0) {
        shared->buffer_count = kBuffers - 1;
      }
      shared->last_turn = turn.number;
      shared->stops = 1;
    }
    WarpArrive(*shared, turn, Phase::kDone);
    if (!goes_on) return;
  }
}

}  // namespace cinch::codec::gpu
