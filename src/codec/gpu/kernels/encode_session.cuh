// SPDX-License-Identifier: Apache-2.0
/// @file encode_session.cuh
/// A run of blocks of one dtype through the pipeline of encode_shared.cuh.
#pragma once

#include <cstdint>

#include "codec/gpu/kernels/encode_window.cuh"

namespace cinch::codec::gpu {

/// What all threads know of a turn's block after its window.
struct TurnPlan {
  uint32_t shape;
  bool stored;
  bool declined;
};

template <FastKind kKind>
__device__ __forceinline__ TurnPlan DecideTurn(const EncodeShared& shared, uint32_t samples,
                                               bool usual) {
  const uint4 costs = LoadShared128(SharedAddress(shared.costs));
  uint32_t best = costs.x;
  uint32_t shape = 0;
  if (costs.y < best) {
    best = costs.y;
    shape = 1;
  }
  if (costs.z < best) {
    best = costs.z;
    shape = 2;
  }
  if (costs.w < best) {
    best = costs.w;
    shape = 3;
  }
  constexpr uint32_t kElementBits = 8 * FastTraits<kKind>::kElementBytes;
  const uint32_t raw_bits = kElementBits * samples;
  const bool stored = best + samples * FastTraits<kKind>::kResidueBits >= raw_bits - raw_bits / 64;
  return {shape, stored, !usual || shared.several == 0};
}

/// By all threads: the barrier before a window. `any` is what SurveyTile found. False when the
/// block is for others: some byte plane of the residues may be zero, or many elements are.
template <FastKind kKind>
__device__ __forceinline__ bool SyncSampled(EncodeShared* shared, uint32_t any, uint32_t samples) {
  const bool first_lane = threadIdx.x % 32 == 0;
  if constexpr (FastTraits<kKind>::kElementBytes == 2) {
    return __syncthreads_or(any != 0 ? 1 : 0) != 0;
  } else if constexpr (FastTraits<kKind>::kElementBytes == 4) {
    any = __reduce_or_sync(kAllLanes, any);
    if (first_lane) atomicOr(&shared->residues, any);
    __syncthreads();
    const uint32_t all = shared->residues;
    return (all & 0xFF) != 0 && (all & 0xFF00) != 0 && (all & 0x807F0000) != 0;
  } else {
    const uint32_t zeros = __reduce_add_sync(kAllLanes, any);
    if (first_lane && zeros != 0) atomicAdd(&shared->zeros, zeros);
    __syncthreads();
    return !format::HasManyZeros(samples, shared->zeros);
  }
}

/// By all threads: makes the pipeline ready for its first turn.
__device__ __forceinline__ void SyncStartSession(EncodeShared* shared, uint32_t number) {
  if (threadIdx.x < 256) shared->counts[threadIdx.x] = 0;
  if (threadIdx.x < kStages) shared->pending[threadIdx.x].payload_bytes = 0;
  if (threadIdx.x == 0) {
    shared->hash = 0;
    shared->residues = 0;
    shared->zeros = 0;
    shared->end = SessionEnd::kCoded;
    shared->staged.turn = number - 2;
    shared->staged.large = false;
  }
  __syncthreads();
}

/// By all threads: sends what waits in `stage`; it is free then.
__device__ __forceinline__ void SyncSend(const BatchParameters& batch, EncodeShared* shared,
                                         uint32_t stage) {
  if (threadIdx.x / 32 == kSenderWarp) {
    WarpSendPending(batch, shared, stage);
    WarpAwaitReads();
  }
  __syncthreads();
}

/// By all threads: the end of a session after the block in `stage`, whose levels 0 and 1 are coded.
__device__ __noinline__ void SyncEndSession(const BatchParameters& batch, EncodeShared* shared,
                                            uint32_t stage, uint32_t odd) {
  __syncthreads();
  SyncSend(batch, shared, stage == 0 ? kStages - 1 : stage - 1);
  if (threadIdx.x / 32 >= kTailWarp) FinishBlock(batch, shared, stage, odd);
  __syncthreads();
  SyncSend(batch, shared, stage);
}

/// A turn, and what holds its block.
struct SessionTurn {
  uint32_t number;
  uint32_t stage;

  /// Which shapes are the turn's.
  __device__ __forceinline__ uint32_t odd() const { return number % 2; }
  __device__ __forceinline__ uint32_t last_stage() const {
    return stage == 0 ? kStages - 1 : stage - 1;
  }
  __device__ __forceinline__ uint32_t next_stage() const {
    return stage == kStages - 1 ? 0 : stage + 1;
  }
};

/// By the sender: the hash of a turn's block, from what the warps found.
__device__ __forceinline__ void WarpFinishHash(EncodeShared* shared, uint32_t turn,
                                               uint32_t length_bytes) {
  const uint32_t lane = threadIdx.x % 32;
  const uint64_t own = lane < kEncodeWarps ? shared->hash_sums[lane] : 0;
  const uint64_t low = __reduce_add_sync(kAllLanes, static_cast<uint32_t>(own) & 0xFFFFFF);
  const uint64_t middle = __reduce_add_sync(kAllLanes, static_cast<uint32_t>(own >> 24) & 0xFFFFFF);
  const uint64_t high = __reduce_add_sync(kAllLanes, static_cast<uint32_t>(own >> 48));
  if (lane == 0) {
    shared->hash = format::FinishHash(low + (middle << 24) + (high << 48), length_bytes,
                                      shared->schedule.units[turn % kRing].block);
  }
}

/// By one warp of kDetectCandidates: its candidate's estimate.
__device__ __forceinline__ void WarpDetect(EncodeShared* shared, uint32_t stage, uint32_t i,
                                           const TurnBlock& block) {
  // The turn's stage is not used yet but by what the block before may have too much.
  constexpr uint32_t kOffset = 4096;
  static_assert(kStageBytes + kOffset >= kLastStageBytes);
  uint8_t* counts = shared->stages + stage * kStageBytes + kOffset + 1024 * i;
  WarpWeighCandidate(i, block.bytes, block.length_bytes, reinterpret_cast<uint32_t*>(counts),
                     &shared->estimates[i]);
}

/// By all threads, after a window: whether a block that detects its dtype has another one than was
/// thought. It is then known.
__device__ __forceinline__ bool SyncRedirects(EncodeShared* shared, uint32_t turn) {
  TurnBlock* block = &shared->blocks[turn % kRing];
  const uint32_t dtype = DetectedDtype(shared->estimates);
  if (dtype == block->dtype) return false;
  __syncthreads();
  if (threadIdx.x == 0) {
    const FastKind kind = FastKindOf(dtype);
    block->dtype = dtype;
    block->kind = kind;
    block->detects = false;
    if (kind != FastKind::kNone) {
      shared->guessed_dtype = dtype;
      TurnBlock* next = &shared->blocks[(turn + 1) % kRing];
      if (next->detects) {
        next->dtype = dtype;
        next->kind = kind;
      }
    }
  }
  return true;
}

/// By all threads: the window of a turn.
template <FastKind kKind>
__device__ __forceinline__ void SyncWindow(const BatchParameters& batch, EncodeShared* shared,
                                           const SessionTurn& turn) {
  const uint32_t warp = __shfl_sync(kAllLanes, threadIdx.x / 32, 0);
  const uint32_t length_bytes = shared->blocks[turn.number % kRing].length_bytes;
  if (warp < kShapes) {
    WarpPlan<kKind>(shared, warp, length_bytes / FastTraits<kKind>::kElementBytes, turn.odd());
  } else if (warp == kResolverWarp) {
    WarpResolveTo(batch, shared, turn.number + 1);
  } else if (warp == kSenderWarp) {
    if (batch.checksum != 0) WarpFinishHash(shared, turn.number, length_bytes);
    WarpSendPending(batch, shared, turn.next_stage());
  } else if (warp >= kDetectWarp && warp < kDetectWarp + kDetectCandidates) {
    const TurnBlock& block = shared->blocks[turn.number % kRing];
    if (block.detects) WarpDetect(shared, turn.stage, warp - kDetectWarp, block);
  } else if (warp >= kTailWarp && shared->staged.turn + 1 == turn.number) {
    FinishBlock(batch, shared, turn.last_stage(), turn.odd() ^ 1);
  }
  const bool large = shared->staged.large;
  __syncthreads();
  if (large) SyncSend(batch, shared, turn.last_stage());  // it may lie in this turn's stage
}

/// By all threads: levels 0 and 1. False when the block is for the plain path.
template <FastKind kKind>
__device__ __forceinline__ bool SyncCodeBlock(EncodeShared* shared, const SessionTurn& turn,
                                              const TurnPlan& plan, FastTile* tile) {
  const uint32_t warp = __shfl_sync(kAllLanes, ThreadHere() / 32, 0);
  const uint32_t lane = ThreadHere() % 32;
  const uint32_t list = SharedAddress(shared->list);
  const uint32_t stage = StageAddress(*shared, turn.stage);
  const uint32_t table = SharedAddress(shared->selectors);
  const CodedShape& shape = shared->shapes[turn.odd()][plan.shape];
  const uint32_t length_bytes = shared->blocks[turn.number % kRing].length_bytes;
  const uint32_t coded_offset = shape.coded_offset;
  uint32_t listed0 = 0;
  uint32_t listed1 = 0;
  if (!plan.stored) {
    TileEscapes<kKind> escapes;
    CodeTile<kKind>(shape, stage, table, length_bytes, tile, &escapes);
    if (lane == 0) shared->listed[0][warp] = escapes.total;
    __syncthreads();
    const WarpPrefix prefix = PrefixOf<kEncodeWarps>(shared->listed[0], warp);
    listed0 = prefix.total;
    if (listed0 > kListCapacity || coded_offset + format::CodeListBytes(listed0) > kStageBytes) {
      return false;
    }
    ListEscapes<kKind>(escapes, list + prefix.before);
    if (threadIdx.x < 4) StoreShared8(list + listed0 + threadIdx.x, shape.padding[1]);
  }
  const TurnBlock& next = shared->blocks[(turn.number + 1) % kRing];
  if (next.kind == kKind) LoadTile(next.bytes, next.length_bytes, tile);
  __syncthreads();
  if (!plan.stored) {
    const ListJob job{list, listed0, stage + coded_offset, table, shape.padding[2]};
    listed1 = SyncCodeLevel<1, 3, kEncodeWarps, false>(job, PairWindows<1>(shape),
                                                       shared->listed[1], warp, BlockSync{});
  }
  // How much room the other levels may need.
  const uint32_t most =
      coded_offset + format::CodeListBytes(listed0) + 2 * format::CodeListBytes(listed1) + 16;
  if (most > kLastStageBytes) return false;
  if (warp == kSenderWarp && lane == 0) {
    const bool large = turn.stage < kStages - 1 && (plan.stored || most + listed1 > kStageBytes);
    shared->staged = {shared->hash, turn.number, {listed0, listed1}, coded_offset, plan.shape,
                      plan.stored,  large};
  }
  return true;
}

/// By all threads: the checksum and the sample of a tile. Returns the sample's residues, ORed, or
/// for dtypes of 8 bits how many sampled elements are zero.
template <FastKind kKind, bool kWhole>
__device__ __forceinline__ uint32_t SurveyTile(const BatchParameters& batch, EncodeShared* shared,
                                               const FastTile& tile, uint32_t length_bytes) {
  const TilePlace<kWhole> place = TilePlaceOf<kWhole>(length_bytes);
  if (batch.checksum != 0) {
    const uint64_t sum = WarpHash(tile, place);
    if (threadIdx.x % 32 == 0) shared->hash_sums[threadIdx.x / 32] = sum;
  }
  uint32_t any = 0;
  CountTile<kKind>(tile, place, SharedAddress(shared->counts), &any);
  return any;
}

/// By all threads: turns from `number` on, whose unit must be known. Returns the last one of the
/// session; shared->end says what became of it.
template <FastKind kKind>
__device__ __forceinline__ SessionTurn SyncRunSession(const BatchParameters& batch,
                                                      EncodeShared* shared, uint32_t number) {
  FastTile tile;
  {
    const TurnBlock& block = shared->blocks[number % kRing];
    LoadTile(block.bytes, block.length_bytes, &tile);
  }
  SyncStartSession(shared, number);
  for (SessionTurn turn{number, 0};; turn = {turn.number + 1, turn.next_stage()}) {
    const uint32_t length_bytes = shared->blocks[turn.number % kRing].length_bytes;
    const uint32_t any = length_bytes == format::kBlockBytes
                             ? SurveyTile<kKind, true>(batch, shared, tile, length_bytes)
                             : SurveyTile<kKind, false>(batch, shared, tile, length_bytes);
    if (threadIdx.x / 32 == kSenderWarp) WarpAwaitReads();  // this stage is free
    const uint32_t samples = length_bytes / FastTraits<kKind>::kElementBytes / 8;
    const bool usual = SyncSampled<kKind>(shared, any, samples);
    SyncWindow<kKind>(batch, shared, turn);
    if (shared->blocks[turn.number % kRing].detects && SyncRedirects(shared, turn.number)) {
      if (threadIdx.x == 0) shared->end = SessionEnd::kRedirected;
      __syncthreads();
      return turn;
    }
    const TurnPlan plan = DecideTurn<kKind>(*shared, samples, usual);
    if (threadIdx.x < 256) shared->counts[threadIdx.x] = 0;
    if (threadIdx.x == 0) shared->residues = shared->zeros = 0;
    if (plan.declined || !SyncCodeBlock<kKind>(shared, turn, plan, &tile)) {
      __syncthreads();
      if (threadIdx.x == 0) shared->end = SessionEnd::kDeclined;
      __syncthreads();
      return turn;
    }
    if (shared->blocks[(turn.number + 1) % kRing].kind != kKind) return turn;
  }
}

}  // namespace cinch::codec::gpu
