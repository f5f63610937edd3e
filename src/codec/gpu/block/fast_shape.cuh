// SPDX-License-Identifier: Apache-2.0
/// @file fast_shape.cuh
/// The choice of a block's shape and windows (docs/format.md, section 7.2) by one warp, a symbol a
/// lane. Device only; codebook.cuh is the same for any team.
#pragma once

#include <cstdint>

#include "codec/gpu/block/workspace.cuh"
#include "codec/gpu/warp/lanes.cuh"
#include "codec/gpu/warp/pipeline.cuh"
#include "format/layout.h"

namespace cinch::codec::gpu {

/// All lanes: clears 256 numbers.
__device__ __forceinline__ void WarpClearCounts(uint32_t* counts) {
  const uint32_t at = SharedAddress(counts) + 16 * (threadIdx.x % 32);
  __syncwarp();
  StoreShared128(at, make_uint4(0, 0, 0, 0));
  StoreShared128(at + 512, make_uint4(0, 0, 0, 0));
  __syncwarp();
}

/// A shape on its way, in all lanes of a warp: lane i has symbol i of what is left of the range.
struct ShapeSearch {
  uint32_t count;
  uint32_t escapes;
  uint32_t cost_bits;
  uint32_t left;
  uint32_t start[format::kLevels];
};

/// The sum of kWidth lanes' counts from this one on; right where all of them are below 32.
template <uint32_t kWidth>
__device__ __forceinline__ uint32_t WindowSum(uint32_t count) {
  if constexpr (kWidth == 1) {
    return count;
  } else {
    const uint32_t two = count + __shfl_down_sync(kAllLanes, count, 1);
    const uint32_t third = __shfl_down_sync(kAllLanes, count, 2);
    if constexpr (kWidth == 3) {
      return two + third;
    } else {
      static_assert(kWidth == 7);
      const uint32_t four = two + __shfl_down_sync(kAllLanes, two, 2);
      return four + __shfl_down_sync(kAllLanes, two + third, 4);
    }
  }
}

/// All lanes: takes the best window of kWidth symbols out for `level`.
template <uint32_t kWidth>
__device__ __forceinline__ void TakeWindow(uint32_t level, uint32_t base, ShapeSearch* search) {
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t sum = WindowSum<kWidth>(search->count);
  const uint32_t best =
      __reduce_max_sync(kAllLanes, lane + kWidth <= search->left ? (sum << 5) | (31 - lane) : 0);
  const uint32_t start = 31 - (best & 31);
  search->start[level] = base + start;
  search->escapes -= best >> 5;
  search->cost_bits += (level + 1 < format::kLevels ? 2 : 8) * search->escapes;
  const uint32_t from = (lane >= start ? lane + kWidth : lane) & 31;
  search->count = __shfl_sync(kAllLanes, search->count, from);
  search->left -= kWidth;
  if (lane >= search->left) search->count = 0;
}

/// The sample's counts, and what all lanes have to know of them.
struct SampleCounts {
  uint32_t base;        ///< Where the range starts.
  uint32_t range_size;  ///< 32, or 16 when there are no more symbols.
  uint32_t own;         ///< How often symbol base + lane occurs.
  uint32_t zeroes;      ///< How often symbol 0 occurs.
  uint32_t samples;
};

/// All lanes: where the range is. Returns false when one symbol has all samples.
template <uint32_t kSymbolBits>
__device__ __forceinline__ bool FindRange(const uint32_t* counts, uint32_t samples,
                                          SampleCounts* found) {
  const uint32_t lane = threadIdx.x % 32;
  found->samples = samples;
  found->zeroes = counts[0];
  if constexpr (kSymbolBits <= 5) {
    found->base = 0;
    found->range_size = 1U << kSymbolBits;
    found->own = lane < found->range_size ? counts[lane] : 0;
    return __reduce_max_sync(kAllLanes, found->own) != samples;
  } else {
    const uint4 low = reinterpret_cast<const uint4*>(counts)[2 * lane];
    const uint4 high = reinterpret_cast<const uint4*>(counts)[2 * lane + 1];
    const uint32_t eight = low.x + low.y + low.z + low.w + high.x + high.y + high.z + high.w;
    const uint32_t most = max(max(max(low.x, low.y), max(low.z, low.w)),
                              max(max(high.x, high.y), max(high.z, high.w)));
    // Symbol 0 has no say in where the range is.
    const uint32_t weight = lane == 0 ? eight - low.x : eight;
    const uint32_t sixteen = weight + __shfl_down_sync(kAllLanes, weight, 1);
    const uint32_t range = sixteen + __shfl_down_sync(kAllLanes, sixteen, 2);
    const uint32_t key = __reduce_max_sync(kAllLanes, lane <= 28 ? (range << 5) | (31 - lane) : 0);
    found->base = 8 * (31 - (key & 31));
    found->range_size = 32;
    found->own = counts[found->base + lane];
    return __reduce_max_sync(kAllLanes, most) != samples;
  }
}

/// A codebook with its cost.
struct ChosenShape {
  uint32_t cost_bits;
  uint32_t level0_bits;
  uint32_t start[format::kLevels];
};

/// All lanes: the cheapest of the four shapes, which are searched side by side.
__device__ __forceinline__ ChosenShape ChooseShape(const SampleCounts& counts) {
  ShapeSearch search[kShapes];
  const auto open = [&](ShapeSearch* one, uint32_t bits) {
    *one = {counts.own, counts.samples, bits * counts.samples, counts.range_size, {}};
  };
  open(&search[0], 2);
  open(&search[1], 1);
  open(&search[2], 3);
  open(&search[3], 1);
  const uint32_t base = counts.base;
  TakeWindow<3>(0, base, &search[0]);
  TakeWindow<1>(0, base, &search[1]);
  TakeWindow<7>(0, base, &search[2]);
  search[3].escapes -= counts.zeroes;
  search[3].cost_bits += 2 * search[3].escapes;
#pragma unroll
  for (uint32_t level = 1; level < format::kLevels; ++level) {
#pragma unroll
    for (uint32_t i = 0; i < kShapes; ++i) {
      // Without symbol 0, all symbols of the range are numbered one less.
      TakeWindow<3>(level, i == 3 ? base - 1 : base, &search[i]);
    }
  }
  ChosenShape best{search[0].cost_bits, 2, {}};
#pragma unroll
  for (uint32_t level = 0; level < format::kLevels; ++level)
    best.start[level] = search[0].start[level];
#pragma unroll
  for (uint32_t i = 1; i < kShapes; ++i) {
    const bool wins = search[i].cost_bits < best.cost_bits && (i != 3 || base != 0);
    if (!wins) continue;
    best.cost_bits = search[i].cost_bits;
    best.level0_bits = i == 2 ? 3 : 1;
#pragma unroll
    for (uint32_t level = 0; level < format::kLevels; ++level) {
      best.start[level] = search[i].start[level];
    }
  }
  return best;
}

/// All lanes: the windows of shape kShape, of those that ChooseShape knows. A shape that is not to
/// be tried costs kNoShapeCost.
inline constexpr uint32_t kNoShapeCost = 0xFFFFFFFF;
template <uint32_t kShape>
__device__ __forceinline__ ChosenShape SearchShape(const SampleCounts& counts) {
  constexpr uint32_t kBits = kShape == 0 ? 2 : kShape == 2 ? 3 : 1;
  ShapeSearch search{counts.own, counts.samples, kBits * counts.samples, counts.range_size, {}};
  uint32_t base = counts.base;
  if constexpr (kShape == 3) {
    // Without symbol 0, all symbols of the range are numbered one less.
    search.escapes -= counts.zeroes;
    search.cost_bits += 2 * search.escapes;
    --base;
  } else {
    TakeWindow<(1U << kBits) - 1>(0, base, &search);
  }
#pragma unroll
  for (uint32_t level = 1; level < format::kLevels; ++level) TakeWindow<3>(level, base, &search);
  ChosenShape shape{search.cost_bits, kBits, {}};
  if (kShape == 3 && counts.base == 0) shape.cost_bits = kNoShapeCost;
#pragma unroll
  for (uint32_t level = 0; level < format::kLevels; ++level) {
    shape.start[level] = search.start[level];
  }
  return shape;
}

/// A shape as those who code need it, in shared memory. Numbers of levels 0 to 3; pairs have the
/// same number in both halves.
struct CodedShape {
  uint32_t start_pair[format::kLevels];
  uint32_t minus_pair[format::kLevels];  ///< The starts' negatives.
  uint32_t padding[format::kLevels];     ///< A symbol that is no escape.
  uint32_t level0_bits;
  uint32_t coded_offset;      ///< As in format::CascadeLayout.
  uint32_t minus_width_pair;  ///< Of level 0.

  __device__ __forceinline__ uint32_t window_start(uint32_t level) const {
    return start_pair[level] & 0xFF;
  }
};

__device__ __forceinline__ uint32_t BothHalves(uint32_t value) {
  return (value & 0xFFFF) * 0x00010001;
}

/// All lanes: writes down a shape of level0_bits kBits, all but its coded_offset.
template <uint32_t kBits>
__device__ __forceinline__ void WarpStoreShape(const ChosenShape& chosen, CodedShape* shape) {
  const uint32_t level = threadIdx.x % 32;
  if (level >= format::kLevels) return;
  uint32_t start = chosen.start[0];
#pragma unroll
  for (uint32_t i = 1; i < format::kLevels; ++i) {
    if (level == i) start = chosen.start[i];
  }
  uint32_t padding = start;
#pragma unroll
  for (uint32_t i = format::kLevels - 1; i-- > 0;) {
    const uint32_t width = i == 0 ? (1U << kBits) - 1 : 3;
    if (i < level && padding >= chosen.start[i]) padding += width;
  }
  shape->start_pair[level] = BothHalves(start);
  shape->minus_pair[level] = BothHalves(0 - start);
  shape->padding[level] = padding;
  if (level != 0) return;
  shape->level0_bits = kBits;
  shape->minus_width_pair = BothHalves(0 - ((1U << kBits) - 1));
}

}  // namespace cinch::codec::gpu
