// SPDX-License-Identifier: Apache-2.0
/// @file group_places.cuh
/// Where the lanes of a warp put what they list, from how much each of their groups lists.
#pragma once

#include <cstdint>

#include "codec/gpu/warp/lanes.cuh"

namespace cinch::codec::gpu {

/// The places of what four groups of 8 elements a lane list, in the order group, lane.
struct GroupOffsets {
  uint32_t at[4];
  uint32_t total;
};
/// All lanes: from the lane's four counts of 8 at most, a byte each, and their sums up to this
/// lane.
__device__ __forceinline__ GroupOffsets PlaceGroups(uint32_t own, uint32_t end) {
  // A byte holds a lane's exclusive sum, 31 x 8 at most; the sum of all 32 lanes may not fit.
  const uint32_t exclusive = end - own;
  const uint32_t last = __shfl_sync(kAllLanes, exclusive, 31);
  const uint32_t last_own = __shfl_sync(kAllLanes, own, 31);
  const uint32_t even = (last & 0x00FF00FF) + (last_own & 0x00FF00FF);
  const uint32_t odd = ((last >> 8) & 0x00FF00FF) + ((last_own >> 8) & 0x00FF00FF);
  const uint32_t both = even + odd;
  const uint32_t second = even & 0xFFFF;
  const uint32_t third = both & 0xFFFF;
  GroupOffsets offsets;
  offsets.total = third + (both >> 16);
  offsets.at[0] = exclusive & 0xFF;
  offsets.at[1] = second + ((exclusive >> 8) & 0xFF);
  offsets.at[2] = third + ((exclusive >> 16) & 0xFF);
  offsets.at[3] = third + (even >> 16) + (exclusive >> 24);
  return offsets;
}
/// All lanes: the same from the counts alone.
__device__ __forceinline__ GroupOffsets ScanGroups(uint32_t own) {
  return PlaceGroups(own, ScanInclusive(own));
}
/// All lanes: PlaceGroups for counts of 16 at most, which come as two pairs of half words.
__device__ __forceinline__ GroupOffsets PlaceGroupsOf16(const uint32_t (&own)[2],
                                                        const uint32_t (&end)[2]) {
  const uint32_t first_all = __shfl_sync(kAllLanes, end[0], 31);
  const uint32_t second_all = __shfl_sync(kAllLanes, end[1], 31);
  const uint32_t first = end[0] - own[0];
  const uint32_t second = end[1] - own[1];
  const uint32_t third_begin = (first_all & 0xFFFF) + (first_all >> 16);
  GroupOffsets offsets;
  offsets.at[0] = first & 0xFFFF;
  offsets.at[1] = (first_all & 0xFFFF) + (first >> 16);
  offsets.at[2] = third_begin + (second & 0xFFFF);
  offsets.at[3] = third_begin + (second_all & 0xFFFF) + (second >> 16);
  offsets.total = third_begin + (second_all & 0xFFFF) + (second_all >> 16);
  return offsets;
}

}  // namespace cinch::codec::gpu
