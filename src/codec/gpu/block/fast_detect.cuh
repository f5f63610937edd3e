// SPDX-License-Identifier: Apache-2.0
/// @file fast_detect.cuh
/// The dtype of a block for `auto` (docs/format.md, section 7.3), a warp a candidate, from the
/// block's bytes in global memory. Device only.
#pragma once

#include <cstdint>

#include "cinch/codec.h"
#include "codec/gpu/block/fast_shape.cuh"
#include "codec/gpu/warp/portable.cuh"
#include "format/dtype.h"
#include "format/layout.h"

namespace cinch::codec::gpu {

inline constexpr uint32_t kDetectCandidates = 7;

/// What a candidate would take of the detection sample, and what that has; nothing is 0 of 0.
struct DtypeEstimate {
  uint32_t bits;
  uint32_t raw_bits;
};

/// Instead of the bits of bytes.
inline constexpr uint32_t kManyZeros = 0xFFFFFFFF;

/// All lanes: weighs a candidate. `counts` are 256 numbers of this warp.
template <uint32_t kDtype>
__device__ __forceinline__ void WarpWeigh(const uint8_t* block, uint32_t length_bytes,
                                          uint32_t* counts, DtypeEstimate* estimate) {
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
  const uint32_t at = kBytes * in_group + high_word;
  const uint32_t place = at % 4;
  const uint32_t shift = kBytes >= 4       ? 23
                         : kTraits.rotated ? 8 * place + 8 * kBytes - kTraits.symbol_bits - 1
                                           : 8 * place;
  uint32_t any = 0;
  uint32_t any_low = 0;
  uint32_t samples = 0;
#pragma unroll 8
  for (uint32_t group = lane; 64 * group + in_group < elements; group += 32) {
    const uint32_t from = (at & ~3U) + 64 * kBytes * group;
    const uint32_t word = LoadAligned<uint32_t>(block + from);
    if constexpr (kBytes == 8) any_low |= LoadAligned<uint32_t>(block + from - 4);
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
  SampleCounts found;
  const bool several = FindRange<kTraits.symbol_bits>(counts, samples, &found);
  const uint32_t cost_bits = several ? ChooseShape(found).cost_bits : 0;
  if (lane == 0) *estimate = {cost_bits + samples * residue_bits, 8 * kBytes * samples};
  // With fewer zero bytes no estimate is that of a sparse block.
  if (kDtype == CINCH_DTYPE_BYTES && lane == 0 && format::HasManyZeros(samples, found.zeroes)) {
    estimate->bits = kManyZeros;
  }
}

/// By warp `i` of kDetectCandidates: weighs its candidate.
__device__ __noinline__ void WarpWeighCandidate(uint32_t i, const uint8_t* block,
                                                uint32_t length_bytes, uint32_t* counts,
                                                DtypeEstimate* estimate) {
  switch (i) {
    case 0:
      return WarpWeigh<CINCH_DTYPE_BF16>(block, length_bytes, counts, estimate);
    case 1:
      return WarpWeigh<CINCH_DTYPE_FP32>(block, length_bytes, counts, estimate);
    case 2:
      return WarpWeigh<CINCH_DTYPE_FP16>(block, length_bytes, counts, estimate);
    case 3:
      return WarpWeigh<CINCH_DTYPE_FP64>(block, length_bytes, counts, estimate);
    case 4:
      return WarpWeigh<CINCH_DTYPE_FP8_E4M3FN>(block, length_bytes, counts, estimate);
    case 5:
      return WarpWeigh<CINCH_DTYPE_FP8_E5M2>(block, length_bytes, counts, estimate);
    default:
      return WarpWeigh<CINCH_DTYPE_BYTES>(block, length_bytes, counts, estimate);
  }
}

/// The dtype with the smallest estimate, of several the first; auto for blocks that may be sparse.
__device__ __forceinline__ uint32_t
DetectedDtype(const DtypeEstimate (&estimates)[kDetectCandidates]) {
  constexpr uint32_t kDtypes[kDetectCandidates] = {
      CINCH_DTYPE_BF16,       CINCH_DTYPE_FP32,     CINCH_DTYPE_FP16, CINCH_DTYPE_FP64,
      CINCH_DTYPE_FP8_E4M3FN, CINCH_DTYPE_FP8_E5M2, CINCH_DTYPE_BYTES};
  if (estimates[kDetectCandidates - 1].bits == kManyZeros) return CINCH_DTYPE_AUTO;
  DtypeEstimate best{0, 0};
  uint32_t dtype = CINCH_DTYPE_BYTES;
#pragma unroll
  for (uint32_t i = 0; i < kDetectCandidates; ++i) {
    const DtypeEstimate one = estimates[i];
    if (one.raw_bits != 0 && (best.raw_bits == 0 || uint64_t{one.bits} * best.raw_bits <
                                                        uint64_t{best.bits} * one.raw_bits)) {
      best = one;
      dtype = kDtypes[i];
    }
  }
  return dtype;
}

}  // namespace cinch::codec::gpu
