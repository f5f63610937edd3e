// SPDX-License-Identifier: Apache-2.0
/// @file codebook.h
/// The encoder's choices that depend on counts alone: docs/format.md, section 7.2. Plain code that
/// every backend shares or must agree with.
#pragma once

#include <cstdint>

#include "format/layout.h"

namespace cinch::codec {

/// How often each symbol occurs in a block's sample.
struct SymbolCounts {
  uint32_t count[256] = {};
  uint32_t total = 0;

  void Add(uint32_t symbol) {
    ++count[symbol];
    ++total;
  }
};

/// What section 7.2 decides.
struct CodebookChoice {
  format::Codebook codebook = {};
  uint32_t level0_bits = 0;
  /// Bits that the sample's symbols would take.
  uint64_t cost_bits = 0;
  /// All samples have one symbol, `codebook.window_start[0]`; level0_bits is 0 and the cost is 0.
  bool single_symbol = false;
};

/// Steps 2 to 4. `counts.total` must not be 0. `allow_single` makes a sample of one symbol come
/// back as `single_symbol`; without it such a sample gets a codebook like any other.
CodebookChoice ChooseCodebook(const SymbolCounts& counts, uint32_t symbol_bits, bool allow_single);

}  // namespace cinch::codec
