// SPDX-License-Identifier: Apache-2.0
/// @file partial_tile.h
/// A block's last tile when it is not full: fields whose planes' strides depend on its size, and
/// elements after the last whole 32-bit word. Scalar code; at most one tile a block comes here.
#pragma once

#include <cstdint>

#include "codec/cpu/tile.h"

namespace cinch::codec::cpu {

/// Writes the field of `bits` bits (1 to 4) of `count` values as planes.
void PackPartialField(const uint8_t* values, uint32_t count, uint32_t bits, uint8_t* planes);

/// Reads what PackPartialField wrote and clears the values from `count` up to the tile's end.
/// False when a reserved bit is set.
[[nodiscard]] bool UnpackPartialField(const uint8_t* planes, uint32_t count, uint32_t bits,
                                      uint8_t* values);

/// Elements [first, last) of a tile are not in a whole 32-bit word.
struct LooseElements {
  uint32_t first;
  uint32_t last;
};

/// Those of a tile of `count` elements; none for dtypes that are not rotated.
LooseElements LooseElementsOf(const format::DtypeTraits& traits, uint32_t count);

/// Splits the loose elements again, each rotated by itself; `bytes` has the tile's elements.
void SplitLooseElements(const format::DtypeTraits& traits, uint32_t count, const uint8_t* bytes,
                        const PlanePointers& planes, SplitTile* tile);

/// Joins the loose elements again.
void JoinLooseElements(const format::DtypeTraits& traits, uint32_t count, const SplitTile& tile,
                       const ConstPlanePointers& planes, uint8_t* bytes);

}  // namespace cinch::codec::cpu
