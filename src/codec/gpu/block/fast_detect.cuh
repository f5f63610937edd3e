// SPDX-License-Identifier: Apache-2.0
/// @file fast_detect.cuh
/// The dtype of a block for `auto` (docs/format.md, section 7.3), by one warp from the block's
/// bytes in shared memory. Device only. Candidates that cannot win, whatever their best codebook
/// is, are not searched one.
#pragma once

#include <cstdint>

#include "codec/gpu/block/fast_shape.cuh"
#include "format/dtype.h"
#include "format/layout.h"

namespace cinch::codec::gpu {

/// The smallest estimate so far, as a fraction.
struct BestEstimate {
  uint32_t dtype;
  uint32_t bits;
  uint32_t raw_bits;

  /// Whether `other_bits` of `other_raw_bits` are less.
  __device__ __forceinline__ bool IsBeatenBy(uint32_t other_bits, uint32_t other_raw_bits) const {
    return other_bits * raw_bits < bits * other_raw_bits;
  }
};

/// All lanes: what no shape can cost less than.
__device__ __forceinline__ uint32_t LeastCost(const SampleCounts& counts) {
  const uint32_t lane = threadIdx.x % 32;
  uint32_t three = counts.own + __shfl_down_sync(kAllLanes, counts.own, 1) +
                   __shfl_down_sync(kAllLanes, counts.own, 2);
  if (lane >= 30) three = 0;
  const uint32_t most_three = __reduce_max_sync(kAllLanes, three);
  const uint32_t most = max(__reduce_max_sync(kAllLanes, counts.own), counts.zeroes);
  const uint32_t samples = counts.samples;
  const uint32_t one_bit = samples + 2 * (samples - most);
  const uint32_t two_bits = 2 * samples + 2 * (samples - most_three);
  return min(min(one_bit, two_bits), 3 * samples);
}

/// All lanes: weighs a candidate against the best so far. `counts` are 256 numbers of this warp.
template <uint32_t kDtype>
__device__ __forceinline__ void WarpWeigh(uint32_t block, uint32_t length_bytes, uint32_t* counts,
                                          BestEstimate* best) {
  constexpr format::DtypeTraits kTraits = format::TraitsOf(kDtype);
  constexpr uint32_t kBytes = kTraits.element_bytes;
  constexpr uint32_t kMask = (1U << kTraits.symbol_bits) - 1;
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t elements = length_bytes / kBytes;
  const uint32_t sums = SharedAddress(counts);
  WarpClearCounts(counts);
  // The sampled element of a group of 64: in octet lane % 8, at the place that the octet's number
  // gives, which is the same for all of the lane's groups.
  const uint32_t in_group = 8 * (lane % 8) + 2 * (lane / 4 % 4) + lane / 16;
  const uint32_t high_word = kBytes == 8 ? 4 : 0;
  const uint32_t at = block + kBytes * in_group + high_word;
  const uint32_t place = at % 4;
  const uint32_t shift = kBytes >= 4       ? 23
                         : kTraits.rotated ? 8 * place + 8 * kBytes - kTraits.symbol_bits - 1
                                           : 8 * place;
  uint32_t any = 0;
  uint32_t any_low = 0;
  uint32_t samples = 0;
  for (uint32_t group = lane; 64 * group + in_group < elements; group += 32) {
    const uint32_t from = (at & ~3U) + 64 * kBytes * group;
    const uint32_t word = LoadShared32(from);
    if constexpr (kBytes == 8) any_low |= LoadShared32(from - 4);
    any |= word;
    CountShared(sums + 4 * ((word >> shift) & kMask));
    ++samples;
  }
  // Residue bytes that are zero in all samples take no room.
  uint32_t residue_bits = kTraits.residue_bits;
  if constexpr (kBytes == 2) {
    const uint32_t low = RotateLeftOne(any) >> (8 * place);
    if (__all_sync(kAllLanes, (low & 0xFF) == 0)) residue_bits -= 8;
  } else if constexpr (kBytes >= 4) {
    const uint32_t all = __reduce_or_sync(kAllLanes, any);
    if ((all & 0xFF) == 0) residue_bits -= 8;
    if ((all & 0xFF00) == 0) residue_bits -= 8;
    if ((all & 0x807F0000) == 0) residue_bits -= 8;
    if constexpr (kBytes == 8) {
      const uint32_t all_low = __reduce_or_sync(kAllLanes, any_low);
      for (uint32_t i = 0; i < 4; ++i) {
        if (((all_low >> (8 * i)) & 0xFF) == 0) residue_bits -= 8;
      }
    }
  }
  samples = __reduce_add_sync(kAllLanes, samples);
  __syncwarp();
  if (samples == 0) return;
  SampleCounts found;
  const bool several = FindRange<kTraits.symbol_bits>(counts, samples, &found);
  const uint32_t raw_bits = 8 * kBytes * samples;
  uint32_t bits = samples * residue_bits + (several ? LeastCost(found) : 0);
  if (best->raw_bits != 0 && !best->IsBeatenBy(bits, raw_bits)) return;
  if (several) bits = samples * residue_bits + ChooseShape(found).cost_bits;
  if (best->raw_bits == 0 || best->IsBeatenBy(bits, raw_bits)) *best = {kDtype, bits, raw_bits};
}

/// All lanes: whether so many bytes are zero that the choice of a dtype has to look for zeros.
__device__ __forceinline__ bool HasManyZeroBytes(uint32_t block, uint32_t length_bytes) {
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t in_group = 8 * (lane % 8) + 2 * (lane / 4 % 4) + lane / 16;
  uint32_t samples = 0;
  uint32_t zeros = 0;
  for (uint32_t at = 64 * lane + in_group; at < length_bytes; at += 64 * 32) {
    ++samples;
    if (LoadShared8(block + at) == 0) ++zeros;
  }
  return format::HasManyZeros(__reduce_add_sync(kAllLanes, samples),
                              __reduce_add_sync(kAllLanes, zeros));
}

/// All lanes: the dtype of the `length_bytes` (8 and more) bytes at `block`.
__device__ __noinline__ uint32_t WarpDetect(uint32_t block, uint32_t length_bytes,
                                            uint32_t* counts) {
  BestEstimate best{CINCH_DTYPE_BYTES, 0, 0};
  WarpWeigh<CINCH_DTYPE_BF16>(block, length_bytes, counts, &best);
  WarpWeigh<CINCH_DTYPE_FP32>(block, length_bytes, counts, &best);
  WarpWeigh<CINCH_DTYPE_FP16>(block, length_bytes, counts, &best);
  WarpWeigh<CINCH_DTYPE_FP64>(block, length_bytes, counts, &best);
  WarpWeigh<CINCH_DTYPE_FP8_E4M3FN>(block, length_bytes, counts, &best);
  WarpWeigh<CINCH_DTYPE_FP8_E5M2>(block, length_bytes, counts, &best);
  WarpWeigh<CINCH_DTYPE_BYTES>(block, length_bytes, counts, &best);
  return best.dtype;
}

}  // namespace cinch::codec::gpu
