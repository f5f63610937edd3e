// SPDX-License-Identifier: Apache-2.0
/// @file sparse_decode.cuh
/// The outside of a sparse block from untrusted bytes (docs/format.md, section 5.4).
#pragma once

#include <cstdint>

#include "codec/gpu/block/copy.cuh"
#include "codec/gpu/block/groups.cuh"
#include "codec/gpu/block/workspace.cuh"
#include "format/layout.h"

namespace cinch::codec::gpu {

/// What a sparse block says of itself; its bitmaps are still to be checked.
struct SparseHead {
  bool valid;
  uint32_t dtype;
  format::SparseCounts counts;
  format::SparseLayout layout;
};

/// Every check that needs no bitmap. Memory beyond payload_bytes is not read.
CINCH_PORTABLE SparseHead CheckSparseHead(const uint8_t* payload, uint32_t payload_bytes,
                                          uint32_t length_bytes) {
  SparseHead head{};
  head.dtype = payload[5];
  if (!format::IsBlockDtype(head.dtype) || payload[6] != 0 || payload[7] != 0) return head;
  const auto counts = LoadAligned<uint32_t>(payload + format::kSparseCountsOffset);
  head.counts = {static_cast<uint16_t>(counts), static_cast<uint16_t>(counts >> 16)};
  head.layout = format::MakeSparseLayout(head.dtype, length_bytes, head.counts);
  if (head.layout.elements == 0 || head.counts.groups > head.layout.groups ||
      head.counts.elements > head.layout.elements || head.layout.inner_bytes == 0 ||
      payload_bytes < head.layout.inner_offset + format::kPayloadUnitBytes ||
      payload_bytes >= format::StoredPayloadBytes(length_bytes)) {
    return head;
  }
  const uint8_t* inner = payload + head.layout.inner_offset;
  const uint32_t mode = inner[4];
  head.valid =
      LoadAligned<uint32_t>(inner) == 0 &&
      mode != static_cast<uint32_t>(format::BlockMode::kSparse) &&
      (mode != static_cast<uint32_t>(format::BlockMode::kCascade) || inner[5] == head.dtype);
  return head;
}

/// The bits of the 32 groups from `first` on, a multiple of 32; those of groups that there are not
/// are zero.
CINCH_PORTABLE uint32_t GroupBits(const uint8_t* payload, uint32_t first, uint32_t groups) {
  const auto bits = LoadAligned<uint32_t>(payload + format::kSparseBitsOffset + first / 8);
  const uint32_t left = groups - first;
  return left < kWordGroups ? bits & ((1U << left) - 1) : bits;
}

/// Counts and checks the bitmaps. False, alike in all threads, when they do not bear out the head.
template <typename Team>
CINCH_TEAM bool SyncCheckMaps(const Team& team, const SparseHead& head, const uint8_t* payload,
                              DecodeWorkspace* workspace, GroupTotals* totals) {
  const format::SparseLayout& layout = head.layout;
  const GroupShare share = GroupShareOf(team, layout.groups);
  uint32_t groups = 0;
  for (uint32_t first = share.begin + kWordGroups * team.lane(); first < share.end;
       first += kWordGroups * Team::kLanes) {
    groups += CountOnes(GroupBits(payload, first, layout.groups));
  }
  groups = team.WarpSum(groups);
  *totals = SyncGroupTotals(team, 0, groups, workspace->escapes);
  if (totals->all_groups != head.counts.groups) return false;
  const uint8_t* bytes = payload + layout.bytes_offset;
  bool bad = SeesNonZero(team, payload, layout.bytes_end, layout.inner_offset);
  uint32_t elements = 0;
  for (uint32_t i = team.lane(); i < groups; i += Team::kLanes) {
    const uint32_t map = bytes[totals->groups_before + i];
    elements += CountOnes(map);
    bad |= map == 0;
  }
  elements = team.WarpSum(elements);
  const uint32_t groups_before = totals->groups_before;
  *totals = SyncGroupTotals(team, elements, groups, workspace->escapes);
  totals->groups_before = groups_before;
  bad |= totals->all_elements != head.counts.elements;
  const uint32_t last = layout.groups - 1;
  const uint32_t last_bits = payload[format::kSparseBitsOffset + last / 8];
  bad |= last_bits >> (last % 8 + 1) != 0;
  const uint32_t last_elements = layout.elements % kOctet;
  if (last_elements != 0 && ((last_bits >> (last % 8)) & 1) != 0) {
    bad |= bytes[head.counts.groups - 1] >> last_elements != 0;
  }
  return !team.SyncAny(bad);
}

/// Spreads the inner bytes, in workspace->original, to the elements' places in workspace->list.
template <uint32_t kElementBytes, typename Team>
CINCH_TEAM void WarpScatter(const Team& team, const SparseHead& head, const GroupTotals& totals,
                            const uint8_t* payload, DecodeWorkspace* workspace) {
  using T = typename ElementWord<kElementBytes>::Type;
  const format::SparseLayout& layout = head.layout;
  const GroupShare share = GroupShareOf(team, layout.groups);
  const uint8_t* bytes = payload + layout.bytes_offset + totals.groups_before;
  const uint8_t* inner = workspace->original + totals.elements_before * kElementBytes;
  for (uint32_t step = share.begin; step < share.end; step += Team::kLanes) {
    const uint32_t group = step + team.lane();
    const uint32_t bits = GroupBits(payload, step / kWordGroups * kWordGroups, layout.groups);
    const bool there = group < share.end && ((bits >> (group % kWordGroups)) & 1) != 0;
    uint32_t sum = 0;
    const uint32_t byte = team.WarpExclusive(there ? 1 : 0, &sum);
    const uint32_t map = there ? bytes[byte] : 0;
    bytes += sum;
    const uint8_t* next = inner + team.WarpExclusive(CountOnes(map), &sum) * kElementBytes;
    inner += sum * kElementBytes;
    if (group >= share.end) continue;
    Octet<kElementBytes> octet{};
    for (uint32_t k = 0; k < kOctet; ++k) {
      if (((map >> k) & 1) == 0) continue;
      PutElement(&octet, k, LoadAligned<T>(next));
      next += kElementBytes;
    }
    StoreOctet(octet, kOctet * group, layout.elements, Transform::kNone, workspace->list);
  }
}

/// All of a sparse block but its inner payload, whose bytes are in workspace->original; the block's
/// are there afterwards.
template <typename Team>
CINCH_TEAM void SyncExpandSparse(const Team& team, const SparseHead& head,
                                 const GroupTotals& totals, const uint8_t* payload,
                                 uint32_t length_bytes, DecodeWorkspace* workspace) {
  switch (format::TraitsOf(head.dtype).element_bytes) {
    case 1:
      WarpScatter<1>(team, head, totals, payload, workspace);
      break;
    case 2:
      WarpScatter<2>(team, head, totals, payload, workspace);
      break;
    case 4:
      WarpScatter<4>(team, head, totals, payload, workspace);
      break;
    default:
      WarpScatter<8>(team, head, totals, payload, workspace);
  }
  const uint32_t tail = head.layout.tail_bytes;
  for (uint32_t i = team.thread(); i < tail; i += team.threads()) {
    workspace->list[length_bytes - tail + i] =
        workspace->original[head.layout.inner_bytes - tail + i];
  }
  team.Sync();
  CopyAs<Words4>(team, workspace->original, workspace->list, length_bytes);
  team.Sync();
}

}  // namespace cinch::codec::gpu
