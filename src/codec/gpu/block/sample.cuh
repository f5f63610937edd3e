// SPDX-License-Identifier: Apache-2.0
/// @file sample.cuh
/// Single elements, the sample of a block and its counts (docs/format.md, section 7.1).
#pragma once

#include <cstdint>

#include "codec/gpu/block/octet.cuh"
#include "codec/gpu/block/workspace.cuh"
#include "format/dtype.h"

namespace cinch::codec::gpu {

/// What the block algorithm needs to know of a dtype, worked out once a block.
struct DtypeFacts {
  uint32_t dtype;
  uint32_t element_bytes;
  uint32_t symbol_bits;
  uint32_t residue_bits;
  Transform transform;
  uint32_t elements;  ///< Of the block.

  CINCH_PORTABLE uint32_t SymbolOf(uint64_t element) const {
    return static_cast<uint32_t>(element >> residue_bits);
  }
};

CINCH_PORTABLE DtypeFacts FactsOf(uint32_t dtype, uint32_t length_bytes) {
  const format::DtypeTraits traits = format::TraitsOf(dtype);
  return {dtype,
          traits.element_bytes,
          traits.symbol_bits,
          traits.residue_bits,
          TransformOf(dtype),
          length_bytes / traits.element_bytes};
}

/// Element `index` of a 16-byte aligned block, normalized: its symbol above its residue.
CINCH_PORTABLE uint64_t LoadElement(const uint8_t* block, uint32_t index, const DtypeFacts& facts) {
  const uint32_t at = index * facts.element_bytes;
  if (facts.element_bytes == 8) {
    const auto words = LoadAligned<Words2>(block + at);
    const bool moves = facts.transform == Transform::kMoveSign;
    const uint32_t high = moves ? MoveSign(words.word[1]) : words.word[1];
    return (uint64_t{high} << 32) | words.word[0];
  }
  if (facts.element_bytes == 4) {
    const auto word = LoadAligned<uint32_t>(block + at);
    return facts.transform == Transform::kMoveSign ? MoveSign(word) : word;
  }
  const uint32_t mask = facts.element_bytes == 2 ? 0xFFFF : 0xFF;
  const uint32_t word_at = at & ~3U;
  const bool whole = word_at + 4 <= facts.elements * facts.element_bytes;
  if (facts.transform == Transform::kRotate && whole) {
    const uint32_t word = RotateLeftOne(LoadAligned<uint32_t>(block + word_at));
    return (word >> (8 * (at - word_at))) & mask;
  }
  const uint32_t element = facts.element_bytes == 2 ? LoadAligned<uint16_t>(block + at) : block[at];
  if (facts.transform != Transform::kRotate) return element;
  return ((element << 1) | (element >> (8 * facts.element_bytes - 1))) & mask;
}

/// Whether all bytes of the element are zero; that of an element before it was normalized.
CINCH_PORTABLE bool IsZeroElement(const uint8_t* block, uint32_t index, const DtypeFacts& facts) {
  const uint8_t* element = block + index * facts.element_bytes;
  switch (facts.element_bytes) {
    case 1:
      return *element == 0;
    case 2:
      return LoadAligned<uint16_t>(element) == 0;
    case 4:
      return LoadAligned<uint32_t>(element) == 0;
    default:
      return LoadAligned<uint64_t>(element) == 0;
  }
}

/// The sampled element of octet `octet`.
CINCH_PORTABLE uint32_t SampleOf(uint32_t octet) {
  return kOctet * octet + 2 * (octet / 32 % 4) + octet / 128 % 2;
}

/// The sample of octets [from, ...) with stride `step`, of this thread: `visit(index)`.
template <typename Visit>
CINCH_PORTABLE void VisitSample(const DtypeFacts& facts, uint32_t from, uint32_t step,
                                Visit visit) {
  for (uint32_t octet = from; kOctet * octet < facts.elements; octet += step) {
    const uint32_t index = SampleOf(octet);
    if (index < facts.elements) visit(index);
  }
}

/// The same for the detection sample (section 7.3): one octet of every eight.
template <typename Visit>
CINCH_PORTABLE void VisitDetectionSample(const DtypeFacts& facts, uint32_t from, uint32_t step,
                                         Visit visit) {
  for (uint32_t group = from; 8 * kOctet * group < facts.elements; group += step) {
    const uint32_t index = SampleOf(8 * group + group % 8);
    if (index < facts.elements) visit(index);
  }
}

/// Counts the sample's symbols, and elements that are zero, and ORs its residues into the
/// workspace, where counts, zeros, sample_word and samples must be 0. Valid after the next Sync.
template <typename Team>
CINCH_TEAM void CountSample(const Team& team, const DtypeFacts& facts, EncodeWorkspace* workspace) {
  uint64_t any = 0;
  uint32_t samples = 0;
  uint32_t zero_symbols = 0;
  uint32_t zeros = 0;
  VisitSample(facts, team.thread(), team.threads(), [&](uint32_t index) {
    const uint64_t element = LoadElement(workspace->original, index, facts);
    const uint32_t symbol = facts.SymbolOf(element);
    any |= element;
    ++samples;
    // Apart: where zeros abound, all threads would wait for the one counter.
    if (symbol == 0) {
      ++zero_symbols;
      zeros += IsZeroElement(workspace->original, index, facts) ? 1 : 0;
    } else {
      team.Add(&workspace->counts[symbol], 1);
    }
  });
  const uint32_t low = team.WarpOr(static_cast<uint32_t>(any));
  const uint32_t high = team.WarpOr(static_cast<uint32_t>(any >> 32));
  samples = team.WarpSum(samples);
  zero_symbols = team.WarpSum(zero_symbols);
  zeros = team.WarpSum(zeros);
  if (team.lane() == 0) {
    team.Or(&workspace->sample_word[0], low);
    team.Or(&workspace->sample_word[1], high);
    team.Add(&workspace->samples, samples);
    if (zero_symbols != 0) team.Add(&workspace->counts[0], zero_symbols);
    if (zeros != 0) team.Add(&workspace->zeros, zeros);
  }
}

}  // namespace cinch::codec::gpu
