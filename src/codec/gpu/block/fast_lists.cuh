// SPDX-License-Identifier: Apache-2.0
/// @file fast_lists.cuh
/// Levels 1 to 3 of a block for the fast encoder: the block's list of escapes, coded in place by
/// a group of warps (docs/format.md, section 5.2). Device only.
#pragma once

#include <cstdint>

#include "codec/gpu/block/fast_encode.cuh"

namespace cinch::codec::gpu {

/// The windows that a level's code needs, two symbols at a time.
template <uint32_t kLevel>
struct PairWindows {
  uint32_t start[kLevel];  ///< Of the levels above.
  uint32_t minus;          ///< The level's negative start.
  uint32_t minus_width;    ///< Of level 0.

  __device__ __forceinline__ explicit PairWindows(const CodedShape& shape)
      : minus(shape.minus_pair[kLevel]), minus_width(shape.minus_width_pair) {
#pragma unroll
    for (uint32_t level = 0; level < kLevel; ++level) start[level] = shape.start_pair[level];
  }
};

/// The codes of four symbols at a level, in the top byte.
template <uint32_t kLevel>
__device__ __forceinline__ uint32_t CodesAtLevel(uint32_t symbols,
                                                 const PairWindows<kLevel>& windows) {
  uint32_t first = Permute(symbols, 0, 0x4140);
  uint32_t second = Permute(symbols, 0, 0x4342);
#pragma unroll
  for (uint32_t level = 0; level < kLevel; ++level) {
    const uint32_t minus_width = level == 0 ? windows.minus_width : 0xFFFDFFFD;
    first = Collapse(first, windows.start[level], minus_width);
    second = Collapse(second, windows.start[level], minus_width);
  }
  return CrumbsOfPairs(__viaddmin_u16x2(first, windows.minus, 0x00030003),
                       __viaddmin_u16x2(second, windows.minus, 0x00030003));
}

/// The escapes of the warps before this one, and of all.
struct WarpPrefix {
  uint32_t before;
  uint32_t total;
};
template <uint32_t kWarps>
__device__ __forceinline__ WarpPrefix PrefixOf(const uint32_t* counts, uint32_t warp) {
  const uint32_t lane = ThreadHere() % 32;
  const uint32_t count = lane < kWarps ? counts[lane] : 0;
  return {__reduce_add_sync(kAllLanes, lane < warp ? count : 0),
          __reduce_add_sync(kAllLanes, count)};
}

/// A lane's words of four entries of a list, coded.
template <uint32_t kWords>
struct ListPart {
  uint32_t symbols[kWords];
  uint32_t selector[kWords];
  uint32_t at;     ///< Of the lane's escapes among the warp's.
  uint32_t total;  ///< Of the warp.
};

/// All lanes: codes 4 kWords entries a lane. `from` and `to` are the places of the lane's first
/// entry and byte of codes, `left` the entries from there on, maybe negative.
template <uint32_t kLevel, uint32_t kWords>
__device__ __forceinline__ void CodePart(uint32_t from, uint32_t to, int left, uint32_t table,
                                         const PairWindows<kLevel>& windows,
                                         ListPart<kWords>* part) {
  static_assert(kWords <= 3);
  uint32_t own = 0;
#pragma unroll
  for (uint32_t g = 0; g < kWords; ++g) part->symbols[g] = LoadShared32(from + 4 * g);
#pragma unroll
  for (uint32_t g = 0; g < kWords; ++g) {
    uint32_t top = CodesAtLevel<kLevel>(part->symbols[g], windows);
    if (left <= static_cast<int>(4 * g)) {
      top = 0;
    } else {
      StoreShared8(to + g, top >> 24);
    }
    part->selector[g] = LoadShared32(table + (top >> 22));
    own += part->selector[g] >> 24;
  }
  const uint32_t inclusive = ScanInclusive(own);
  part->at = inclusive - own;
  part->total = __shfl_sync(kAllLanes, inclusive, 31);
}

/// Stores the lane's escapes; `to` is the place of the warp's first.
template <uint32_t kWords>
__device__ __forceinline__ void ListPartEscapes(const ListPart<kWords>& part, uint32_t to) {
  to += part.at;
  uint32_t most = 0;
  uint32_t at = to;
#pragma unroll
  for (uint32_t g = 0; g < kWords; ++g) {
    const uint32_t symbols = Permute(part.symbols[g], 0, part.selector[g]);
    if (part.selector[g] >= 1U << 24) StoreShared8<0>(at, symbols);
    if (part.selector[g] >= 2U << 24) StoreShared8<1>(at, symbols >> 8);
    at += part.selector[g] >> 24;
    most = max(most, part.selector[g]);
  }
  if (most < 3U << 24) return;
  at = to;
#pragma unroll
  for (uint32_t g = 0; g < kWords; ++g) {
    const uint32_t symbols = Permute(part.symbols[g], 0, part.selector[g]);
    if (part.selector[g] >= 3U << 24) StoreShared8<2>(at, symbols >> 16);
    if (part.selector[g] >= 4U << 24) StoreShared8<3>(at, symbols >> 24);
    at += part.selector[g] >> 24;
  }
}

/// A list and where its codes go.
struct ListJob {
  uint32_t list;  ///< Padded to a multiple of 4 with what is no escape.
  uint32_t listed;
  uint32_t codes;
  uint32_t table;    ///< Of CompactSelector.
  uint32_t padding;  ///< For what escapes.
};

/// By the warps of a group, which `sync` synchronises: codes a list in place. What escapes is at
/// the list's front, padded, with kSyncLast ready for all and else after the next `sync`. Returns
/// how many. `counts` has room for a number a warp.
template <uint32_t kLevel, uint32_t kWords, uint32_t kWarps, bool kSyncLast, typename Sync>
__device__ __forceinline__ uint32_t SyncCodeLevel(const ListJob& job,
                                                  const PairWindows<kLevel>& windows,
                                                  uint32_t* counts, uint32_t warp, Sync sync) {
  const uint32_t lane = ThreadHere() % 32;
  constexpr uint32_t kPass = 4 * kWords * 32 * kWarps;
  uint32_t escapes = 0;
#pragma unroll 1
  for (uint32_t first = 0; first < job.listed; first += kPass) {
    const uint32_t warp_first = first + 4 * kWords * 32 * warp;
    const uint32_t at = warp_first + 4 * kWords * lane;
    ListPart<kWords> part;
    part.total = 0;
    const bool busy = warp_first < job.listed;
    if (busy) {
      CodePart<kLevel>(job.list + at, job.codes + at / 4,
                       static_cast<int>(job.listed) - static_cast<int>(at), job.table, windows,
                       &part);
    }
    uint32_t to = job.list + escapes;
    if constexpr (kWarps > 1) {
      if (lane == 0) counts[warp] = part.total;
      sync();
      const WarpPrefix prefix = PrefixOf<kWarps>(counts, warp);
      to += prefix.before;
      escapes += prefix.total;
    } else {
      escapes += part.total;
      sync();
    }
    if (busy) ListPartEscapes(part, to);
    const bool last = first + kPass >= job.listed;
    if (last && warp == 0 && lane < 4) StoreShared8(job.list + escapes + lane, job.padding);
    if (kSyncLast || !last) sync();
  }
  return escapes;
}

}  // namespace cinch::codec::gpu
