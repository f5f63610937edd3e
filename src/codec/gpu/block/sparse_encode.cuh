// SPDX-License-Identifier: Apache-2.0
/// @file sparse_encode.cuh
/// The outside of a sparse block, encoding (docs/format.md, section 5.4): bitmaps, and the inner
/// bytes, from original bytes in the workspace.
#pragma once

#include <cstdint>

#include "codec/gpu/block/copy.cuh"
#include "codec/gpu/block/groups.cuh"
#include "codec/gpu/block/sample.cuh"
#include "codec/gpu/block/workspace.cuh"
#include "format/layout.h"

namespace cinch::codec::gpu {

/// Where inner bytes are put together in the workspace's payload: behind the largest bitmaps.
inline constexpr uint32_t kInnerStage = 4640;
static_assert(kInnerStage % 16 == 0 &&
              kInnerStage >= format::MakeSparseLayout(CINCH_DTYPE_BYTES, format::kBlockBytes,
                                                      {format::kBlockBytes / 8, 0})
                                 .inner_offset);
static_assert(kInnerStage + format::kBlockBytes / 16 * 13 + 8 <=
              format::kMaxBlockPayloadBytes + kVectorSlackBytes);

/// A warp's groups with something in them, and elements that are not zero, valid in lane 0.
struct GroupCounts {
  uint32_t elements;
  uint32_t groups;
};
template <uint32_t kElementBytes, typename Team>
CINCH_TEAM GroupCounts WarpCountGroups(const Team& team, uint32_t elements,
                                       const EncodeWorkspace& workspace) {
  const GroupShare share = GroupShareOf(team, (elements + kOctet - 1) / kOctet);
  uint32_t counts = 0;  // Groups above 16 bits of elements.
  for (uint32_t group = share.begin + team.lane(); group < share.end; group += Team::kLanes) {
    const uint32_t map = MapOf(
        LoadOctet<kElementBytes>(workspace.original, kOctet * group, elements, Transform::kNone));
    counts += CountOnes(map) | (map != 0 ? 0x10000 : 0);
  }
  counts = team.WarpSum(counts);
  return {counts & 0xFFFF, counts >> 16};
}

/// Writes a warp's part of the bitmaps at `payload`, where it is zero, and of the inner bytes.
template <uint32_t kElementBytes, typename Team>
CINCH_TEAM void WarpGather(const Team& team, const format::SparseLayout& layout,
                           const GroupTotals& totals, const EncodeWorkspace& workspace,
                           uint8_t* payload, uint8_t* inner) {
  using T = typename ElementWord<kElementBytes>::Type;
  const GroupShare share = GroupShareOf(team, layout.groups);
  uint8_t* bytes = payload + layout.bytes_offset + totals.groups_before;
  inner += totals.elements_before * kElementBytes;
  for (uint32_t step = share.begin; step < share.end; step += Team::kLanes) {
    const uint32_t group = step + team.lane();
    Octet<kElementBytes> octet{};
    if (group < share.end) {
      octet = LoadOctet<kElementBytes>(workspace.original, kOctet * group, layout.elements,
                                       Transform::kNone);
    }
    const uint32_t map = MapOf(octet);
    uint32_t sums = 0;
    const uint32_t before = team.WarpExclusive(CountOnes(map) | (map != 0 ? 0x10000 : 0), &sums);
    const uint32_t bits = team.WarpOr(map != 0 ? 1U << (group % kWordGroups) : 0);
    if (team.lane() == 0 && bits != 0) {
      uint8_t* word = payload + format::kSparseBitsOffset + step / kWordGroups * 4;
      team.Or(reinterpret_cast<uint32_t*>(word), bits);
    }
    if (map != 0) bytes[before >> 16] = static_cast<uint8_t>(map);
    uint8_t* to = inner + (before & 0xFFFF) * kElementBytes;
    for (uint32_t k = 0; k < kOctet; ++k) {
      if (((map >> k) & 1) == 0) continue;
      StoreAligned<T>(to, ElementOf(octet, k));
      to += kElementBytes;
    }
    bytes += sums >> 16;
    inner += (sums & 0xFFFF) * kElementBytes;
  }
}

/// The inner bytes of a block again, to any place whose address 8 divides, when the workspace has
/// its original bytes.
template <uint32_t kElementBytes, typename Team>
CINCH_TEAM void WarpGatherInner(const Team& team, uint32_t elements, uint32_t elements_before,
                                const EncodeWorkspace& workspace, uint8_t* inner) {
  using T = typename ElementWord<kElementBytes>::Type;
  const GroupShare share = GroupShareOf(team, (elements + kOctet - 1) / kOctet);
  inner += elements_before * kElementBytes;
  for (uint32_t step = share.begin; step < share.end; step += Team::kLanes) {
    const uint32_t group = step + team.lane();
    Octet<kElementBytes> octet{};
    if (group < share.end) {
      octet =
          LoadOctet<kElementBytes>(workspace.original, kOctet * group, elements, Transform::kNone);
    }
    const uint32_t map = MapOf(octet);
    uint32_t sum = 0;
    uint8_t* to = inner + team.WarpExclusive(CountOnes(map), &sum) * kElementBytes;
    for (uint32_t k = 0; k < kOctet; ++k) {
      if (((map >> k) & 1) == 0) continue;
      StoreAligned<T>(to, ElementOf(octet, k));
      to += kElementBytes;
    }
    inner += sum * kElementBytes;
  }
}

/// What is known of a sparse block while its inner payload is made.
struct SparseJob {
  format::SparseCounts counts;
  format::SparseLayout layout;
  uint32_t elements_before;  ///< Of this warp's share.
};

/// Makes bitmaps at their places and inner bytes in workspace->original. False, with the original
/// bytes still there, when too few elements are zero. The counts fill 8 bytes of the payload from
/// kSparseCountsOffset on; its head is left out.
template <uint32_t kElementBytes, typename Team>
CINCH_TEAM bool SyncMakeInner(const Team& team, const DtypeFacts& facts, uint32_t length_bytes,
                              EncodeWorkspace* workspace, SparseJob* job) {
  const GroupCounts own = WarpCountGroups<kElementBytes>(team, facts.elements, *workspace);
  const GroupTotals totals = SyncGroupTotals(team, own.elements, own.groups, workspace->escapes);
  if (!format::InnerFits(facts.elements, totals.all_elements)) return false;
  job->counts = {static_cast<uint16_t>(totals.all_groups),
                 static_cast<uint16_t>(totals.all_elements)};
  job->layout = format::MakeSparseLayout(facts.dtype, length_bytes, job->counts);
  job->elements_before = totals.elements_before;
  uint8_t* payload = workspace->payload;
  ZeroBytes(team, payload, format::kSparseBitsOffset, job->layout.inner_offset);
  team.Sync();
  uint8_t* inner = payload + kInnerStage;
  WarpGather<kElementBytes>(team, job->layout, totals, *workspace, payload, inner);
  const uint32_t inner_bytes = job->layout.inner_bytes;
  const uint32_t tail = job->layout.tail_bytes;
  for (uint32_t i = team.thread(); i < tail; i += team.threads()) {
    inner[inner_bytes - tail + i] = workspace->original[length_bytes - tail + i];
  }
  team.Sync();
  CopyAs<Words4>(team, workspace->original, inner, inner_bytes);
  ZeroBytes(team, workspace->original, inner_bytes, inner_bytes + 16);
  team.Sync();
  return true;
}

template <typename Team>
CINCH_TEAM bool SyncMakeInnerOf(const Team& team, const DtypeFacts& facts, uint32_t length_bytes,
                                EncodeWorkspace* workspace, SparseJob* job) {
  switch (facts.element_bytes) {
    case 1:
      return SyncMakeInner<1>(team, facts, length_bytes, workspace, job);
    case 2:
      return SyncMakeInner<2>(team, facts, length_bytes, workspace, job);
    case 4:
      return SyncMakeInner<4>(team, facts, length_bytes, workspace, job);
    default:
      return SyncMakeInner<8>(team, facts, length_bytes, workspace, job);
  }
}

template <typename Team>
CINCH_TEAM void WarpGatherInnerOf(const Team& team, const DtypeFacts& facts, const SparseJob& job,
                                  const EncodeWorkspace& workspace, uint8_t* inner) {
  switch (facts.element_bytes) {
    case 1:
      return WarpGatherInner<1>(team, facts.elements, job.elements_before, workspace, inner);
    case 2:
      return WarpGatherInner<2>(team, facts.elements, job.elements_before, workspace, inner);
    case 4:
      return WarpGatherInner<4>(team, facts.elements, job.elements_before, workspace, inner);
    default:
      return WarpGatherInner<8>(team, facts.elements, job.elements_before, workspace, inner);
  }
}

}  // namespace cinch::codec::gpu
