// SPDX-License-Identifier: Apache-2.0
/// @file workspace.cuh
/// The memory in which a team codes a block: shared memory on a device.
#pragma once

#include <cstdint>

#include "codec/gpu/warp/portable.cuh"
#include "format/layout.h"

namespace cinch::codec::gpu {

inline constexpr uint32_t kMaxWarps = 16;
inline constexpr uint32_t kRangeSymbols = 32;
inline constexpr uint32_t kShapes = 4;
inline constexpr uint32_t kAutoCandidates = 7;

/// A codebook and what the sample's symbols cost with it (docs/format.md, section 7.2).
struct Shape {
  uint32_t cost_bits;
  uint32_t level0_bits;
  uint32_t window_start[format::kLevels];
};

/// Room beyond a block for reads of whole vectors.
inline constexpr uint32_t kVectorSlackBytes = 64;

/// What a team that encodes shares. Between two blocks its contents mean nothing.
struct EncodeWorkspace {
  /// The block's original bytes. While a block is coded, each warp's list of escapes overwrites
  /// what it has read.
  alignas(128) uint8_t original[format::kBlockBytes + kVectorSlackBytes];
  /// The block's payload, staged.
  alignas(128) uint8_t payload[format::kMaxBlockPayloadBytes + kVectorSlackBytes];

  alignas(16) uint32_t counts[256];                                ///< Of the sample's symbols.
  alignas(16) uint32_t remaining[kAutoCandidates][kRangeSymbols];  ///< A row a warp.
  Shape shapes[kShapes];
  uint64_t estimate_bits[kAutoCandidates];
  uint32_t estimate_samples[kAutoCandidates];
  uint8_t place_of_symbol[256];                  ///< Level << 4 | code; level 4 is a raw byte.
  uint32_t escapes[format::kLevels][kMaxWarps];  ///< Of each level, in each warp's share.
  uint64_t hash_sum;
  uint32_t any_word[2];     ///< The OR of the even, and of the odd, words of whole pairs.
  uint32_t sample_word[2];  ///< The OR of the sample's residues, its low and high word.
  uint32_t differs;         ///< Not zero when the block is not constant.
  uint32_t samples;
  uint32_t zeros;          ///< Samples that are elements that are zero.
  uint32_t payload_begin;  ///< Where in `payload` it is built: behind a sparse block's bitmaps.
  uint32_t estimate_zeros[kAutoCandidates];
  uint32_t estimate_sparse_bits[kAutoCandidates];
};

/// Where the payload at hand is built.
CINCH_PORTABLE uint8_t* PayloadOf(EncodeWorkspace* workspace) {
  return workspace->payload + workspace->payload_begin;
}

/// What a team that decodes shares; the payload is elsewhere.
struct DecodeWorkspace {
  /// The block's original bytes; before, lists of symbols.
  alignas(128) uint8_t original[format::kBlockBytes + kVectorSlackBytes];
  /// Lists of symbols of the other levels.
  alignas(128) uint8_t list[format::kBlockBytes + kVectorSlackBytes];

  uint32_t symbol_of_code[format::kLevels][8];
  uint32_t escapes[format::kLevels][kMaxWarps];  ///< Of each level, in each warp's share.
  uint64_t hash_sum;
};

}  // namespace cinch::codec::gpu
