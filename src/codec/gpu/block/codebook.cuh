// SPDX-License-Identifier: Apache-2.0
/// @file codebook.cuh
/// The choice of windows, by warps (docs/format.md, section 7.2); codec/plan/codebook.cc is the
/// same in plain words.
#pragma once

#include <cstdint>

#include "codec/gpu/block/workspace.cuh"
#include "format/layout.h"

namespace cinch::codec::gpu {

inline constexpr uint32_t kRangeStep = 8;
/// The cost of a shape that is not tried.
inline constexpr uint32_t kNoShape = 0xFFFFFFFF;

/// The best of the candidates that a warp's lanes saw, the lowest one on a tie.
class BestCandidate {
 public:
  CINCH_PORTABLE void Consider(uint32_t candidate, uint32_t samples) {
    const uint32_t key = (samples << kCandidateBits) | (kMaxCandidate - candidate);
    if (key > key_) key_ = key;
  }
  template <typename Team>
  CINCH_TEAM void WarpReduce(const Team& team) {
    key_ = team.WarpMax(key_);
  }
  CINCH_PORTABLE uint32_t candidate() const { return kMaxCandidate - (key_ & kMaxCandidate); }
  CINCH_PORTABLE uint32_t samples() const { return key_ >> kCandidateBits; }

 private:
  static constexpr uint32_t kCandidateBits = 5;
  static constexpr uint32_t kMaxCandidate = (1U << kCandidateBits) - 1;
  uint32_t key_ = 0;
};

/// Where the range of 32 symbols starts. `eights` has room for 32 numbers of this warp.
template <typename Team>
CINCH_TEAM uint32_t WarpRangeStart(const Team& team, const uint32_t* counts, uint32_t symbol_bits,
                                   uint32_t* eights) {
  if ((1U << symbol_bits) <= kRangeSymbols) return 0;
  for (uint32_t i = team.lane(); i < 256 / kRangeStep; i += Team::kLanes) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(counts + kRangeStep * i);
    const auto low = LoadAligned<Words4>(bytes);
    const auto high = LoadAligned<Words4>(bytes + sizeof low);
    const uint32_t zeroes = i == 0 ? low.word[0] : 0;  // are far from everything else
    eights[i] = low.word[0] + low.word[1] + low.word[2] + low.word[3] + high.word[0] +
                high.word[1] + high.word[2] + high.word[3] - zeroes;
  }
  team.WarpSync();
  BestCandidate best;
  for (uint32_t i = team.lane(); i + 4 <= 256 / kRangeStep; i += Team::kLanes) {
    best.Consider(i, eights[i] + eights[i + 1] + eights[i + 2] + eights[i + 3]);
  }
  best.WarpReduce(team);
  team.WarpSync();
  return kRangeStep * best.candidate();
}

/// The shapes that are tried, in order: level0_bits 2, 1, 3, and 1 with symbol 0 as level 0's.
inline constexpr uint32_t kZeroShape = 3;
CINCH_PORTABLE uint32_t CandidateBits(uint32_t i) { return i == 0 ? 2 : i == 2 ? 3 : 1; }

/// Steps 2 and 3 for candidate `i`, by one warp: the windows in all lanes. `counts` are of 256
/// symbols, zero from 2^symbol_bits on, and add up to `samples`. `remaining` is this warp's.
template <typename Team>
CINCH_TEAM Shape WarpChooseShape(const Team& team, const uint32_t* counts, uint32_t samples,
                                 uint32_t symbol_bits, uint32_t i, uint32_t* remaining) {
  static_assert(Team::kLanes == 1 || Team::kLanes == kRangeSymbols);
  uint32_t range_start = WarpRangeStart(team, counts, symbol_bits, remaining);
  uint32_t size = Minimum(1U << symbol_bits, kRangeSymbols);
  for (uint32_t k = team.lane(); k < kRangeSymbols; k += Team::kLanes) {
    remaining[k] = k < size ? counts[range_start + k] : 0;
  }
  team.WarpSync();
  Shape shape{};
  shape.level0_bits = CandidateBits(i);
  shape.cost_bits = shape.level0_bits * samples;
  uint32_t escapes = samples;
  uint32_t first_level = 0;
  if (i == kZeroShape) {
    if (range_start == 0) {  // symbol 0 is in the range: other shapes see it
      shape.cost_bits = kNoShape;
      return shape;
    }
    --range_start;  // in the alphabet without symbol 0
    escapes -= counts[0];
    shape.cost_bits += 2 * escapes;
    first_level = 1;
  }
  for (uint32_t level = first_level; level < format::kLevels; ++level) {
    const uint32_t width = format::WindowWidth(shape.level0_bits, level);
    BestCandidate best;
    for (uint32_t k = team.lane(); k + width <= size; k += Team::kLanes) {
      uint32_t sum = 0;
      for (uint32_t next = 0; next < width; ++next) sum += remaining[k + next];
      best.Consider(k, sum);
    }
    best.WarpReduce(team);
    const uint32_t start = best.candidate();
    shape.window_start[level] = range_start + start;
    escapes -= best.samples();
    shape.cost_bits += (level + 1 < format::kLevels ? 2 : 8) * escapes;
    for (uint32_t k = team.lane(); k < kRangeSymbols; k += Team::kLanes) {
      const uint32_t from = k < start ? k : k + width;
      const uint32_t count = from < size ? remaining[from] : 0;
      team.WarpSync();
      remaining[k] = count;
    }
    team.WarpSync();
    size -= width;
  }
  return shape;
}

/// The cheapest shape of four, each by another warp; the same in every thread. `counts` and
/// `samples` must be visible to all.
template <typename Team>
CINCH_TEAM Shape SyncChooseShape(const Team& team, uint32_t symbol_bits,
                                 EncodeWorkspace* workspace) {
  for (uint32_t i = team.warp(); i < kShapes; i += team.warps()) {
    const Shape shape = WarpChooseShape(team, workspace->counts, workspace->samples, symbol_bits, i,
                                        workspace->remaining[i]);
    if (team.lane() == 0) workspace->shapes[i] = shape;
  }
  team.Sync();
  uint32_t best = 0;
  for (uint32_t i = 1; i < kShapes; ++i) {
    if (workspace->shapes[i].cost_bits < workspace->shapes[best].cost_bits) best = i;
  }
  return workspace->shapes[best];
}

/// The one symbol that all samples have, or 256 when they differ; the same in all lanes.
template <typename Team>
CINCH_TEAM uint32_t WarpSingleSymbol(const Team& team, const uint32_t* counts, uint32_t samples) {
  uint32_t found = 0;
  for (uint32_t symbol = team.lane(); symbol < 256; symbol += Team::kLanes) {
    if (counts[symbol] == samples) found = symbol + 1;
  }
  found = team.WarpMax(found);
  return found == 0 ? 256 : found - 1;
}

/// Level << 4 | code of a symbol; level 4 for what is stored raw.
CINCH_PORTABLE uint32_t PlaceOfSymbol(const Shape& shape, uint32_t symbol) {
  for (uint32_t level = 0; level < format::kLevels; ++level) {
    const uint32_t width = format::WindowWidth(shape.level0_bits, level);
    const uint32_t code = symbol - shape.window_start[level];
    if (code < width) return (level << 4) | code;
    if (symbol > shape.window_start[level]) symbol -= width;
  }
  return format::kLevels << 4;
}

}  // namespace cinch::codec::gpu
