// SPDX-License-Identifier: Apache-2.0
/// @file fast_plan.cuh
/// What has to be known of a block before its elements can be coded (docs/format.md, sections 7.1,
/// 7.2 and 7.4), by one warp from the block's bytes in shared memory. Device only.
#pragma once

#include <cstdint>

#include "codec/gpu/block/fast_detect.cuh"
#include "codec/gpu/block/fast_shape.cuh"
#include "codec/gpu/block/fast_split.cuh"
#include "codec/gpu/block/workspace.cuh"
#include "format/layout.h"

namespace cinch::codec::gpu {

/// What becomes of a block.
enum class FastVerdict : uint32_t {
  kCascade,
  kStored,
  kDeclined,  ///< It is for encode_block.cuh.
};

/// The windows as code for two symbols at a time needs them: everything in both halves.
struct PairWindows {
  uint32_t start[format::kLevels];
  uint32_t minus[format::kLevels];  ///< The starts' negatives.
  uint32_t minus_width;             ///< Of level 0.
};
__device__ __forceinline__ uint32_t BothHalves(uint32_t value) {
  return (value & 0xFFFF) * 0x00010001;
}

/// A block's plan, in shared memory.
struct FastPlan {
  FastVerdict verdict;
  FastKind kind;
  uint32_t dtype;
  uint32_t length_bytes;
  uint32_t elements;
  uint32_t level0_bits;
  uint32_t window_start[format::kLevels];
  PairWindows windows;
  uint32_t padding[format::kLevels];  ///< What code 0 of each level names: no escape.
  uint32_t code_offset;               ///< As in format::CascadeLayout.
  uint32_t coded_offset;              ///< The same.
  uint32_t overflows;  ///< Not zero when a list had no room: the block is declined late.
  uint32_t payload_bytes;
  uint64_t hash;  ///< BlockHash, or 0 without checksums.
};

/// All lanes: counts the sampled symbols of `octets` octets at `block` and returns whether the
/// sample has something in every byte plane of the residues. `counts` must be 0.
template <FastKind kKind>
__device__ __forceinline__ bool CountFastSample(uint32_t block, uint32_t octets, uint32_t counts) {
  using Traits = FastTraits<kKind>;
  constexpr uint32_t kUnroll = 8;  // the sampled place of an octet repeats after 8 x 32 octets
  constexpr uint32_t kOctetBytes = 8 * Traits::kElementBytes;
  constexpr uint32_t kMask = (1U << Traits::kSymbolBits) - 1;
  const uint32_t lane = threadIdx.x % 32;
  uint32_t any[2] = {0, 0};
  // The i-th of the lane's octets: where the word with the sampled element is, and its symbol.
  const auto at = [&](uint32_t first, uint32_t i) {
    const uint32_t element = 2 * (i % 4) + i / 4;
    return block + kOctetBytes * (first + 32 * i + lane) + element * Traits::kElementBytes / 4 * 4;
  };
  const auto count = [&](uint32_t i, uint32_t word) {
    const uint32_t element = 2 * (i % 4) + i / 4;
    const uint32_t place = element * Traits::kElementBytes % 4;
    // Where the symbol was before the rotation.
    const uint32_t shift = kKind == FastKind::kFp32
                               ? 23
                               : 8 * place + 8 * Traits::kElementBytes - Traits::kSymbolBits - 1;
    CountShared(counts + 4 * ((word >> shift) & kMask));
    any[place / 2] |= word;
  };
  uint32_t first = 0;
#pragma unroll 1
  for (; first + 32 * kUnroll <= octets; first += 32 * kUnroll) {
    uint32_t word[kUnroll];
#pragma unroll
    for (uint32_t i = 0; i < kUnroll; ++i) word[i] = LoadShared32(at(first, i));
#pragma unroll
    for (uint32_t i = 0; i < kUnroll; ++i) count(i, word[i]);
  }
#pragma unroll
  for (uint32_t i = 0; i < kUnroll; ++i) {
    if (first + 32 * i + lane < octets) count(i, LoadShared32(at(first, i)));
  }
  if constexpr (kKind == FastKind::kFp32) {
    const uint32_t all = __reduce_or_sync(kAllLanes, any[0]);
    return (all & 0xFF) != 0 && (all & 0xFF00) != 0 && (all & 0x807F0000) != 0;
  } else if constexpr (kKind == FastKind::kBf16 || kKind == FastKind::kFp16) {
    return __any_sync(kAllLanes, ((any[0] & 0x8000007F) | (any[1] & 0x007F8000)) != 0);
  } else {
    return true;
  }
}

/// All lanes: how many of the sampled elements are zero.
template <FastKind kKind>
__device__ __forceinline__ uint32_t CountZeroSamples(uint32_t block, uint32_t octets) {
  constexpr uint32_t kBytes = FastTraits<kKind>::kElementBytes;
  const uint32_t lane = threadIdx.x % 32;
  uint32_t zeros = 0;
#pragma unroll 1
  for (uint32_t octet = lane; octet < octets; octet += 32) {
    const uint32_t at = kBytes * (8 * octet + 2 * (octet / 32 % 4) + octet / 128 % 2);
    const uint32_t word = LoadShared32(block + (at & ~3U));
    const uint32_t above = 32 - 8 * kBytes;
    if ((word >> (8 * (at & 3))) << above == 0) ++zeros;
  }
  return __reduce_add_sync(kAllLanes, zeros);
}

/// All lanes: the plan of a block of kind kKind at `block` (its length in *plan). `counts` are 256
/// numbers of this warp.
template <FastKind kKind>
__device__ __forceinline__ void WarpPlanAs(uint32_t block, uint32_t* counts, FastPlan* plan) {
  using Traits = FastTraits<kKind>;
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t length_bytes = plan->length_bytes;
  const uint32_t elements = length_bytes / Traits::kElementBytes;
  const uint32_t samples = elements / 8;
  const bool planes = CountFastSample<kKind>(block, samples, SharedAddress(counts));
  __syncwarp();
  SampleCounts found;
  const bool several = FindRange<Traits::kSymbolBits>(counts, samples, &found);
  const ChosenShape shape = ChooseShape(found);
  constexpr uint32_t kElementBits = 8 * Traits::kElementBytes;
  const uint32_t raw_bits = kElementBits * samples;
  const bool worth = shape.cost_bits + samples * Traits::kResidueBits < raw_bits - raw_bits / 64;
  // Symbol 0 is not zero alone. The other encoder knows how sparse blocks go on.
  const bool sparse = format::HasManyZeros(samples, found.zeroes) &&
                      format::IsSparse(Traits::kElementBytes, Traits::kResidueBits, samples,
                                       CountZeroSamples<kKind>(block, samples), shape.cost_bits);
  PairWindows windows;
  uint32_t padding[format::kLevels];
#pragma unroll
  for (uint32_t level = 0; level < format::kLevels; ++level) {
    windows.start[level] = BothHalves(shape.start[level]);
    windows.minus[level] = BothHalves(0 - shape.start[level]);
    padding[level] = shape.start[level];
#pragma unroll
    for (uint32_t above = level; above-- > 0;) {
      const uint32_t width = format::WindowWidth(shape.level0_bits, above);
      if (padding[level] >= shape.start[above]) padding[level] += width;
    }
  }
  windows.minus_width = BothHalves(0 - format::WindowWidth(shape.level0_bits, 0));
  if (lane == 0) {
    plan->windows = windows;
    plan->verdict = !planes || !several || sparse ? FastVerdict::kDeclined
                    : worth                       ? FastVerdict::kCascade
                                                  : FastVerdict::kStored;
    plan->kind = kKind;
    plan->elements = elements;
    plan->level0_bits = shape.level0_bits;
    for (uint32_t level = 0; level < format::kLevels; ++level) {
      plan->window_start[level] = shape.start[level];
      plan->padding[level] = padding[level];
    }
    plan->code_offset = format::kResidueOffset + format::FieldBytes(Traits::kResidueBits, elements);
    plan->coded_offset = plan->code_offset + format::FieldBytes(shape.level0_bits, elements);
    plan->overflows = 0;
  }
}

/// All lanes: clears the counts and plans the block of which *plan has dtype and length.
__device__ __forceinline__ void WarpPlanFast(uint32_t block, uint32_t* counts, FastPlan* plan) {
  const uint32_t lane = threadIdx.x % 32;
  if (plan->dtype == CINCH_DTYPE_AUTO) {
    const uint32_t dtype = HasManyZeroBytes(block, plan->length_bytes)
                               ? uint32_t{CINCH_DTYPE_AUTO}
                               : WarpDetect(block, plan->length_bytes, counts);
    if (lane == 0) plan->dtype = dtype;
    __syncwarp();
  }
  WarpClearCounts(counts);
  switch (FastKindOf(plan->dtype)) {
    case FastKind::kBf16:
      return WarpPlanAs<FastKind::kBf16>(block, counts, plan);
    case FastKind::kFp16:
      return WarpPlanAs<FastKind::kFp16>(block, counts, plan);
    case FastKind::kFp32:
      return WarpPlanAs<FastKind::kFp32>(block, counts, plan);
    case FastKind::kFp8E4:
      return WarpPlanAs<FastKind::kFp8E4>(block, counts, plan);
    case FastKind::kFp8E5:
      return WarpPlanAs<FastKind::kFp8E5>(block, counts, plan);
    default:
      if (lane == 0) plan->verdict = FastVerdict::kDeclined;
  }
}

}  // namespace cinch::codec::gpu
