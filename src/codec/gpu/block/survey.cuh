// SPDX-License-Identifier: Apache-2.0
/// @file survey.cuh
/// What one look at all bytes of a block gives: its hash, whether it is constant, and which byte
/// planes are zero.
#pragma once

#include <cstdint>

#include "codec/gpu/block/octet.cuh"
#include "codec/gpu/block/workspace.cuh"
#include "format/block_hash.h"
#include "format/layout.h"

namespace cinch::codec::gpu {

/// The sum of section 6 over a block at `bytes` (16-byte aligned, zero for 8 bytes behind its end),
/// this thread's share.
template <typename Team>
CINCH_TEAM uint64_t HashShare(const Team& team, const uint8_t* bytes, uint32_t length_bytes) {
  uint64_t sum = 0;
  for (uint32_t pair = team.thread(); 8 * pair < length_bytes; pair += team.threads()) {
    const auto words = LoadAligned<Words2>(bytes + 8 * pair);
    sum += format::HashPair(pair, words.word[0], words.word[1]);
  }
  return sum;
}

/// BlockHash of such a block; the same in every thread. `*sum` is the team's and must be 0, visible
/// to all; it is left undefined.
template <typename Team>
CINCH_TEAM uint64_t SyncHash(const Team& team, const uint8_t* bytes, uint32_t length_bytes,
                             uint64_t index, uint64_t* sum) {
  const uint64_t share = team.WarpSum64(HashShare(team, bytes, length_bytes));
  if (team.lane() == 0) team.Add64(sum, share);
  team.Sync();
  return format::FinishHash(*sum, length_bytes, index);
}

/// Fills in any_word and differs of the workspace from its original bytes. They must be 0 before;
/// valid after the next Sync.
template <typename Team>
CINCH_TEAM void SurveyWords(const Team& team, uint32_t length_bytes, EncodeWorkspace* workspace) {
  const auto first = LoadAligned<Words2>(workspace->original);
  uint32_t even = 0;
  uint32_t odd = 0;
  uint32_t differs = 0;
  for (uint32_t pair = team.thread(); pair < length_bytes / 8; pair += team.threads()) {
    const auto words = LoadAligned<Words2>(workspace->original + 8 * pair);
    even |= words.word[0];
    odd |= words.word[1];
    differs |= (words.word[0] ^ first.word[0]) | (words.word[1] ^ first.word[1]);
  }
  if (team.thread() == 0 && length_bytes > 8) {
    for (uint32_t at = length_bytes / 8 * 8; at < length_bytes; ++at) {
      differs |= uint32_t{workspace->original[at]} ^ workspace->original[at % 8];
    }
  }
  even = team.WarpOr(even);
  odd = team.WarpOr(odd);
  differs = team.WarpOr(differs);
  if (team.lane() == 0) {
    team.Or(&workspace->any_word[0], even);
    team.Or(&workspace->any_word[1], odd);
    team.Or(&workspace->differs, differs);
  }
}

/// The OR of all normalized elements of the first `elements` in the workspace.
template <uint32_t kElementBytes>
CINCH_PORTABLE uint64_t AnyElement(const EncodeWorkspace& workspace, uint32_t elements,
                                   Transform transform) {
  // An octet of equal pairs stands for all whole pairs: both transforms keep bits apart.
  Octet<kElementBytes> any;
  for (uint32_t i = 0; i < any.kWords; ++i) any.word[i] = workspace.any_word[i % 2];
  Normalize(&any, transform);
  const uint32_t pair_elements = elements * kElementBytes / 8 * 8 / kElementBytes;
  if (pair_elements < elements) {
    const uint32_t first = pair_elements / kOctet * kOctet;
    const auto last = LoadOctet<kElementBytes>(workspace.original, first, elements, transform);
    for (uint32_t i = 0; i < any.kWords; ++i) any.word[i] |= last.word[i];
  }
  uint64_t result = 0;
  for (uint32_t plane = 0; plane < kElementBytes; ++plane) {
    const Plane bytes = TakePlane(any, plane);
    uint32_t fold = bytes.low | bytes.high;
    fold |= fold >> 16;
    fold = (fold | (fold >> 8)) & 0xFF;
    result |= uint64_t{fold} << (8 * plane);
  }
  return result;
}

}  // namespace cinch::codec::gpu
