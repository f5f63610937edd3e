// SPDX-License-Identifier: Apache-2.0
/// @file content_hash_kernel.cuh
/// The content hash of bytes that are not coded (docs/format.md, section 6).
#pragma once

#include <cstdint>

#include "codec/gpu/warp/portable.cuh"
#include "codec/gpu/warp/team.cuh"
#include "format/block_hash.h"
#include "format/layout.h"

namespace cinch::codec::gpu {

inline constexpr uint32_t kHashThreads = 512;

/// This thread's share of a block at any address.
__device__ __forceinline__ uint64_t HashShareAnywhere(const uint8_t* bytes, uint32_t length_bytes) {
  uint64_t sum = 0;
  uint32_t done = 0;
  if (IsAligned(bytes, 16)) {
    done = length_bytes / 16 * 16;
#pragma unroll 4
    for (uint32_t at = 16 * threadIdx.x; at < done; at += 16 * kHashThreads) {
      const auto words = LoadAligned<Words4>(bytes + at);
      sum += format::HashPair(at / 8, words.word[0], words.word[1]);
      sum += format::HashPair(at / 8 + 1, words.word[2], words.word[3]);
    }
  }
  for (uint32_t at = done + 8 * threadIdx.x; at < length_bytes; at += 8 * kHashThreads) {
    const uint32_t low = Minimum(length_bytes - at, 4);
    const uint32_t high = Minimum(length_bytes - at - low, 4);
    sum += format::HashPair(at / 8, LoadBytes<uint32_t>(bytes + at, low),
                            LoadBytes<uint32_t>(bytes + at + 4, high));
  }
  return sum;
}

/// Adds the hashes of all blocks to `*content_hash`.
__global__ void __launch_bounds__(kHashThreads)
    ContentHashKernel(const uint8_t* bytes, uint64_t size_bytes, uint64_t* content_hash) {
  __shared__ uint64_t sums[2];
  const CtaTeam<kHashThreads> team;
  if (team.thread() < 2) sums[team.thread()] = 0;
  team.Sync();
  uint64_t total = 0;
  uint32_t turn = 0;
  const uint64_t blocks = format::BlockCount(size_bytes);
  for (uint64_t block = blockIdx.x; block < blocks; block += gridDim.x, turn ^= 1) {
    const uint32_t length_bytes = format::BlockLength(size_bytes, block);
    const uint64_t share =
        team.WarpSum64(HashShareAnywhere(bytes + block * format::kBlockBytes, length_bytes));
    if (team.lane() == 0) team.Add64(&sums[turn], share);
    team.Sync();
    if (team.thread() == 0) {
      total += format::FinishHash(sums[turn], length_bytes, block);
      sums[turn] = 0;  // Not used again before the next turn's barrier.
    }
  }
  if (team.thread() == 0) team.Add64(content_hash, total);
}

}  // namespace cinch::codec::gpu
