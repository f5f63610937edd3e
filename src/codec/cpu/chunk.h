// SPDX-License-Identifier: Apache-2.0
/// @file chunk.h
/// A block is worked on in chunks of 1024 elements: what the steps of the codec hand to each other
/// stays in the L1 cache, so that each step can be a short loop of its own. The format knows no
/// chunks; a chunk's planes are the block's, continued.
#pragma once

#include <cstdint>

#include "format/layout.h"

namespace cinch::codec::cpu {

/// A multiple of 8, so that every plane of a chunk begins at a byte, and of all vectors' sizes.
inline constexpr uint32_t kChunk = 1024;
inline constexpr uint32_t kMaxPlanes = 7;  ///< Byte planes of a 56-bit residue.
/// Vectors may read and write this much past the end of a list.
inline constexpr uint32_t kVectorSlack = 64;

/// One byte for each element of a chunk.
struct alignas(64) ChunkBytes {
  uint8_t at[kChunk + kVectorSlack];
};

/// One byte for each entry of a level's list. A decoder that follows wrong codes notices it at a
/// chunk's end: until then it reads past the list.
struct alignas(64) ListBytes {
  uint8_t at[format::kBlockBytes + kChunk + kVectorSlack];
};

/// A chunk's elements, split. `low_bits` has the residue bits that do not fill a byte plane.
struct SplitChunk {
  ChunkBytes symbols;
  ChunkBytes low_bits;
};

/// Where the residue's byte planes are.
struct PlanePointers {
  uint8_t* at[kMaxPlanes];
};
struct ConstPlanePointers {
  const uint8_t* at[kMaxPlanes];
};

/// Where things go that have no place in the payload: planes that are all zero, and the planes and
/// elements of a chunk that is not full.
struct alignas(64) ChunkScratch {
  uint8_t planes[kMaxPlanes][kChunk];
  uint8_t elements[8 * kChunk];
};

}  // namespace cinch::codec::cpu
