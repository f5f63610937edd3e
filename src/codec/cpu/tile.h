// SPDX-License-Identifier: Apache-2.0
/// @file tile.h
/// The tile in pieces: what the steps of the codec hand to each other. It stays in the L1 cache, so
/// that each step can be a short loop of its own.
#pragma once

#include <cstdint>

#include "format/layout.h"

namespace cinch::codec::cpu {

inline constexpr uint32_t kTile = format::kTileElements;
inline constexpr uint32_t kMaxPlanes = 7;  ///< Byte planes of a 56-bit residue.
/// Vectors may read and write this much past the end of a list.
inline constexpr uint32_t kVectorSlack = 64;
inline constexpr uint32_t kMaxTiles = format::kBlockBytes / kTile;
/// A tile's coded part at its largest: three levels of codes and a raw byte for each element.
inline constexpr uint32_t kMaxCodedBytes = 3 * kTile / 4 + kTile;

/// One byte for each element of a tile, or for each entry of a level's list.
struct alignas(64) TileBytes {
  uint8_t at[kTile + kVectorSlack];
};

/// A tile's elements, split. `low_bits` has the residue bits that do not fill a byte plane.
struct SplitTile {
  TileBytes symbols;
  TileBytes low_bits;
};

/// Where the residue's byte planes are.
struct PlanePointers {
  uint8_t* at[kMaxPlanes];
};
struct ConstPlanePointers {
  const uint8_t* at[kMaxPlanes];
};

/// Where things go that have no place in the payload: planes that are all zero, and the planes and
/// elements of a tile that is not full.
struct alignas(64) TileScratch {
  uint8_t planes[kMaxPlanes][kTile];
  uint8_t elements[8 * kTile];
};

}  // namespace cinch::codec::cpu
