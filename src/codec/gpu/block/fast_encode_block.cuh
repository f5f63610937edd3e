// SPDX-License-Identifier: Apache-2.0
/// @file fast_encode_block.cuh
/// The steps of fast_encode.cuh put together to a block.
#pragma once

#include <cstdint>

#include "codec/gpu/block/encode_block.cuh"
#include "codec/gpu/block/fast_encode.cuh"
#include "codec/gpu/warp/team.cuh"

namespace cinch::codec::gpu {

enum class FastVerdict { kDeclined, kStored, kCascade };

/// Whether a block is one for the fast encoder to look at.
__device__ __forceinline__ bool IsForFastEncode(const EncodeTask& task) {
  return task.dtype == CINCH_DTYPE_BF16 && task.length_bytes == format::kBlockBytes &&
         IsAligned(task.bytes, 16);
}

/// The lane's first byte of such a block.
__device__ __forceinline__ const uint8_t* TileOf(const uint8_t* block) {
  return block + (threadIdx.x / 32) * 2048 + (threadIdx.x % 32) * 16;
}

/// Hashes, rotates and counts the tile, and chooses the windows; the residues are written beside.
/// By all threads, workspace->counts and hash_sum being 0; `*hash` is valid in all of them.
__device__ __forceinline__ FastVerdict SyncFastPlan(const EncodeTask& task, FastTile* tile,
                                                    EncodeWorkspace* workspace, uint64_t* hash) {
  const CtaTeam<32 * FastDecode::kWarps> team;
  const uint32_t lane = team.lane();
  const uint32_t warp = team.warp();
  if (task.checksum) {
    uint64_t sum = 0;
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) {
      sum += HashVector(
          make_uint4(tile->word[k][0], tile->word[k][1], tile->word[k][2], tile->word[k][3]),
          warp * 512 + lane * 4 + 128 * k);
    }
    sum = team.WarpSum64(sum);
    if (lane == 0) team.Add64(&workspace->hash_sum, sum);
  }
  // The sampled element of group k is half warp % 2 of word k.
  uint32_t sampled = 0;
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) tile->word[k][i] = RotateLeftOne(tile->word[k][i]);
    const uint32_t element = tile->word[k][k] >> (warp % 2 != 0 ? 16 : 0);
    sampled |= element & 0xFF;
    atomicAdd(&workspace->counts[(element >> 8) & 0xFF], 1U);
  }
  const bool has_residues = team.SyncAny(sampled != 0);
  if (warp == 0) ChooseFastWindows<2>(workspace->counts, &workspace->fast[0]);
  if (warp == 1) ChooseFastWindows<1>(workspace->counts, &workspace->fast[1]);
  if (warp == 2) ChooseFastWindows<3>(workspace->counts, &workspace->fast[2]);
  const uint32_t residues = SharedAddress(workspace->payload) + format::kResidueOffset +
                            warp * FastDecode::kWarpElements + 8 * lane;
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k) {
    StoreShared64(residues + 256 * k, Permute(tile->word[k][0], tile->word[k][1], 0x6420),
                  Permute(tile->word[k][2], tile->word[k][3], 0x6420));
  }
  *hash =
      task.checksum ? format::FinishHash(workspace->hash_sum, format::kBlockBytes, task.index) : 0;
  team.Sync();
  const uint32_t cost_bits = workspace->fast[0].cost_bits;
  constexpr uint32_t kSamples = FastDecode::kElements / 8;
  constexpr uint32_t kRawBits = 16 * kSamples;
  // A block that may be sparse is for others.
  if (format::HasManyZeros(kSamples, workspace->counts[0])) return FastVerdict::kDeclined;
  // What the shape with symbol 0 alone at level 0 costs at least.
  const uint32_t zero_cost_bits = 3 * kSamples - 2 * workspace->counts[0];
  // Zero planes and samples of one symbol, too, are for others: the latter make 1-bit codes
  // cheaper.
  if (!has_residues || workspace->fast[1].cost_bits < cost_bits ||
      workspace->fast[2].cost_bits < cost_bits || zero_cost_bits < cost_bits) {
    return FastVerdict::kDeclined;
  }
  return cost_bits + 8 * kSamples >= kRawBits - kRawBits / 64 ? FastVerdict::kStored
                                                              : FastVerdict::kCascade;
}

/// By one warp: levels 2 and 3, raws, padding and the block's head. Returns the payload's size, or
/// 0 when the block is better stored, in all lanes.
__device__ __forceinline__ uint32_t WarpFastFinish(uint32_t listed0, uint32_t listed1,
                                                   uint32_t checksum, uint32_t table,
                                                   EncodeWorkspace* workspace) {
  const uint32_t lane = threadIdx.x % 32;
  const FastShape& shape = workspace->fast[0];
  const uint32_t list = SharedAddress(workspace->original);
  const uint32_t payload = SharedAddress(workspace->payload);
  const uint32_t codes2 = FastDecode::kCodedOffset + (listed0 + 3) / 4;
  const uint32_t codes3 = codes2 + (listed1 + 3) / 4;
  const uint32_t listed2 = WarpCodeLevel<2>(list, listed1, payload + codes2, table, shape);
  const uint32_t raws = WarpCodeLevel<3>(list, listed2, payload + codes3, table, shape);
  const uint32_t raws_offset = codes3 + (listed2 + 3) / 4;
  const uint32_t end = raws_offset + raws;
  const uint32_t payload_bytes = (end + 15) / 16 * 16;
  if (payload_bytes >= format::StoredPayloadBytes(format::kBlockBytes)) return 0;
  for (uint32_t i = lane; i < raws; i += 32) {
    workspace->payload[raws_offset + i] = workspace->original[i];
  }
  if (lane < payload_bytes - end) workspace->payload[end + lane] = 0;
  if (lane == 0) {
    const uint32_t codebook =
        shape.start[0] | (shape.start[1] << 8) | (shape.start[2] << 16) | (shape.start[3] << 24);
    StoreAligned(workspace->payload,
                 Words4{{checksum, FastDecode::kTag, codebook, listed0 | (listed1 << 16)}});
    StoreAligned(workspace->payload + 16, Words2{{listed2 | (raws << 16), 0}});
  }
  return payload_bytes;
}

/// Codes a cascade whose plan is made, by all threads; `next` loads the next block's tile as soon
/// as this one's has been used. The payload's size, or 0 when the block is better stored.
template <typename LoadNext>
__device__ __forceinline__ uint32_t SyncFastCode(FastTile* tile, uint32_t checksum, uint32_t table,
                                                 EncodeWorkspace* workspace, LoadNext next) {
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t warp = threadIdx.x / 32;
  const FastShape& shape = workspace->fast[0];
  const uint32_t list = SharedAddress(workspace->original);
  const uint32_t payload = SharedAddress(workspace->payload);
  uint32_t symbols[4][2];
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k) {
    symbols[k][0] = Permute(tile->word[k][0], tile->word[k][1], 0x7531);
    symbols[k][1] = Permute(tile->word[k][2], tile->word[k][3], 0x7531);
  }
  FastEscapes escapes;
  CodeElements(
      symbols,
      payload + FastDecode::kCodeOffset + warp * (FastDecode::kWarpElements / 4) + 2 * lane, table,
      shape.start[0], &escapes);
  if (lane == 0) workspace->escapes[0][warp] = escapes.offsets.total;
  __syncthreads();
  const WarpPrefix prefix = PrefixOf(workspace->escapes[0]);
  ListEscapes(escapes, list + prefix.before);
  if (threadIdx.x < 4) StoreShared8(list + prefix.total + threadIdx.x, shape.first_symbol[1]);
  next();
  __syncthreads();
  const uint32_t listed1 = SyncCodeLevel1(list, prefix.total, payload + FastDecode::kCodedOffset,
                                          table, shape, workspace->escapes[1]);
  __syncthreads();
  if (warp == 0) {
    const uint32_t bytes = WarpFastFinish(prefix.total, listed1, checksum, table, workspace);
    if (lane == 0) workspace->escapes[2][0] = bytes;
  }
  __syncthreads();
  return workspace->escapes[2][0];
}

}  // namespace cinch::codec::gpu
