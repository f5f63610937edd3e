// SPDX-License-Identifier: Apache-2.0
#include "codec/plan/codebook.h"

namespace cinch::codec {
namespace {

constexpr uint32_t kRangeSymbols = 32;
constexpr uint32_t kRangeStep = 8;

/// How often the range's symbols occur that no window has taken yet, in ascending order.
struct Remaining {
  uint32_t first_symbol = 0;
  uint32_t size = 0;
  uint32_t count[kRangeSymbols] = {};

  void Remove(uint32_t start, uint32_t width) {
    for (uint32_t i = start; i + width < size; ++i) count[i] = count[i + width];
    size -= width;
  }
};

struct Window {
  uint32_t start;
  uint32_t samples;
};

Window BestWindow(const Remaining& remaining, uint32_t width) {
  uint32_t samples = 0;
  for (uint32_t i = 0; i < width; ++i) samples += remaining.count[i];
  Window best{0, samples};
  for (uint32_t start = 1; start + width <= remaining.size; ++start) {
    samples += remaining.count[start + width - 1] - remaining.count[start - 1];
    if (samples > best.samples) best = {start, samples};
  }
  return best;
}

/// Symbol 0 does not count: exact zeroes are far from everything else.
uint32_t RangeStart(const SymbolCounts& counts, uint32_t alphabet) {
  if (alphabet <= kRangeSymbols) return 0;
  uint32_t best_start = 0;
  uint32_t best_samples = 0;
  for (uint32_t start = 0; start + kRangeSymbols <= alphabet; start += kRangeStep) {
    uint32_t samples = 0;
    for (uint32_t i = 0; i < kRangeSymbols; ++i) samples += counts.count[start + i];
    if (start == 0) samples -= counts.count[0];
    if (samples > best_samples) {
      best_samples = samples;
      best_start = start;
    }
  }
  return best_start;
}

Remaining TakeRange(const SymbolCounts& counts, uint32_t symbol_bits) {
  const uint32_t alphabet = 1U << symbol_bits;
  Remaining range;
  range.first_symbol = RangeStart(counts, alphabet);
  range.size = alphabet < kRangeSymbols ? alphabet : kRangeSymbols;
  for (uint32_t i = 0; i < range.size; ++i) {
    range.count[i] = counts.count[range.first_symbol + i];
  }
  return range;
}

/// Levels from `first_level` on, for the choice's escapes so far.
void ChooseWindows(Remaining remaining, uint32_t first_level, uint32_t escapes,
                   CodebookChoice* choice) {
  for (uint32_t level = first_level; level < format::kLevels; ++level) {
    const uint32_t width = format::WindowWidth(choice->level0_bits, level);
    const Window window = BestWindow(remaining, width);
    choice->codebook.window_start[level] =
        static_cast<uint8_t>(remaining.first_symbol + window.start);
    remaining.Remove(window.start, width);
    escapes -= window.samples;
    choice->cost_bits += uint64_t{level + 1 < format::kLevels ? 2U : 8U} * escapes;
  }
}

CodebookChoice ChooseShape(const Remaining& range, uint32_t total, uint32_t level0_bits) {
  CodebookChoice choice;
  choice.level0_bits = level0_bits;
  choice.cost_bits = uint64_t{level0_bits} * total;
  ChooseWindows(range, 0, total, &choice);
  return choice;
}

/// The shape of data with many exact zeroes: level 0 has one bit and names symbol 0, which is
/// below the range.
CodebookChoice ChooseZeroShape(Remaining range, uint32_t total, uint32_t zeroes) {
  CodebookChoice choice;
  choice.level0_bits = 1;
  choice.cost_bits = total + uint64_t{2} * (total - zeroes);
  --range.first_symbol;  // in the alphabet without symbol 0
  ChooseWindows(range, 1, total - zeroes, &choice);
  return choice;
}

}  // namespace

CodebookChoice ChooseCodebook(const SymbolCounts& counts, uint32_t symbol_bits, bool allow_single) {
  const Remaining range = TakeRange(counts, symbol_bits);
  if (allow_single) {
    for (uint32_t symbol = 0; symbol < (1U << symbol_bits); ++symbol) {
      if (counts.count[symbol] == 0) continue;
      if (counts.count[symbol] != counts.total) break;
      CodebookChoice single;
      single.codebook.window_start[0] = static_cast<uint8_t>(symbol);
      single.single_symbol = true;
      return single;
    }
  }
  CodebookChoice best = ChooseShape(range, counts.total, 2);
  const auto consider = [&](const CodebookChoice& candidate) {
    if (candidate.cost_bits < best.cost_bits) best = candidate;
  };
  consider(ChooseShape(range, counts.total, 1));
  consider(ChooseShape(range, counts.total, 3));
  if (range.first_symbol != 0) consider(ChooseZeroShape(range, counts.total, counts.count[0]));
  return best;
}

}  // namespace cinch::codec
