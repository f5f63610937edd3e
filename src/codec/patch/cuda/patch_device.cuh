// SPDX-License-Identifier: Apache-2.0
/// @file patch_device.cuh
/// What the kernels that create and apply patches have in common: chunks of 16 bytes, hashes, the
/// scratch memory. A thread block of kPatchThreads threads has one block of 32 KiB at a time; of
/// row r, thread t has chunk r * kPatchThreads + t.
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>

#include "cinch/patch.h"
#include "cinch/status.h"
#include "codec/gpu/kernels/look_back.cuh"
#include "codec/gpu/warp/lanes.cuh"
#include "format/patch_layout.h"

namespace cinch::codec::gpu {

inline constexpr uint32_t kPatchThreads = 256;
inline constexpr uint32_t kPatchWarps = kPatchThreads / 32;
inline constexpr uint32_t kChunkBytes = 16;
inline constexpr uint32_t kChunkWords = 8;
inline constexpr uint32_t kPatchRows = format::kBlockBytes / kChunkBytes / kPatchThreads;
static_assert(kPatchRows == 8 && kPatchWarps == 8);

/// All zero before a launch.
struct PatchScratch {
  uint32_t ticket;
  uint32_t reserved0;
  uint64_t base_hash;
  uint64_t result_hash;
  uint64_t error_key;  ///< 0 for none; else the largest is of the first bad block.
  uint32_t total_units;
  uint32_t reserved[5];
};
static_assert(sizeof(PatchScratch) == 56);

/// The first bad block decides; of one block, the first error that is reported.
__device__ __forceinline__ void ReportPatchError(PatchScratch* scratch, uint32_t block,
                                                 cinch_status status) {
  const uint64_t key =
      (uint64_t{~block} << 32) | static_cast<uint32_t>(-static_cast<int32_t>(status));
  atomicMax(reinterpret_cast<unsigned long long*>(&scratch->error_key),
            static_cast<unsigned long long>(key));
}
__device__ __forceinline__ cinch_status StatusOfKey(uint64_t key) {
  return static_cast<cinch_status>(-static_cast<int32_t>(static_cast<uint32_t>(key)));
}

/// Eight words.
struct Chunk {
  uint32_t pair[4];
};

/// The chunk at `bytes`, of which `valid` bytes exist; the rest is zero.
__device__ __forceinline__ Chunk LoadChunk(const uint8_t* bytes, uint32_t valid, bool aligned) {
  Chunk chunk{};
  if (valid >= kChunkBytes && aligned) {
    const uint4 all = __ldcs(reinterpret_cast<const uint4*>(bytes));
    chunk = {{all.x, all.y, all.z, all.w}};
  } else {
#pragma unroll
    for (uint32_t i = 0; i < kChunkBytes; ++i) {
      if (i < valid) chunk.pair[i / 4] |= uint32_t{bytes[i]} << (8 * (i % 4));
    }
  }
  return chunk;
}
__device__ __forceinline__ void StoreChunk(uint8_t* bytes, const Chunk& chunk, uint32_t valid,
                                           bool aligned) {
  if (valid >= kChunkBytes && aligned) {
    __stcs(reinterpret_cast<uint4*>(bytes),
           make_uint4(chunk.pair[0], chunk.pair[1], chunk.pair[2], chunk.pair[3]));
    return;
  }
#pragma unroll
  for (uint32_t i = 0; i < kChunkBytes; ++i) {
    if (i < valid) bytes[i] = static_cast<uint8_t>(chunk.pair[i / 4] >> (8 * (i % 4)));
  }
}

/// Chunks of a block on their way to shared memory, each thread's for itself.
struct Stage {
  uint4 chunk[kPatchRows * kPatchThreads];
};
static_assert(sizeof(Stage) == format::kBlockBytes);

/// Begins to load this thread's chunks of a whole block at an aligned address.
__device__ __forceinline__ void Prefetch(Stage& stage, const uint8_t* block) {
#pragma unroll
  for (uint32_t row = 0; row < kPatchRows; ++row) {
    const uint32_t number = row * kPatchThreads + threadIdx.x;
    __pipeline_memcpy_async(&stage.chunk[number], block + uint64_t{number} * kChunkBytes,
                            kChunkBytes);
  }
}
__device__ __forceinline__ Chunk FromStage(const Stage& stage, uint32_t number) {
  const uint4 all = stage.chunk[number];
  return {{all.x, all.y, all.z, all.w}};
}

__device__ __forceinline__ uint32_t ValidBytes(uint32_t chunk, uint32_t length) {
  const uint32_t at = chunk * kChunkBytes;
  return at >= length ? 0 : length - at;
}

/// The terms of a chunk's two pairs; pairs that begin beyond the end do not count.
__device__ __forceinline__ uint64_t ChunkHash(const Chunk& data, uint32_t chunk, uint32_t valid) {
  uint64_t sum = 0;
  if (valid > 0) sum += format::HashPair(2 * chunk, data.pair[0], data.pair[1]);
  if (valid > 8) sum += format::HashPair(2 * chunk + 1, data.pair[2], data.pair[3]);
  return sum;
}

__device__ __forceinline__ uint64_t WarpSum(uint64_t value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

}  // namespace cinch::codec::gpu
