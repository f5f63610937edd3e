// SPDX-License-Identifier: Apache-2.0
/// @file field.cuh
/// Fields of a tile in planes, an octet at a time (docs/format.md, section 5.1).
#pragma once

#include <cstdint>

#include "codec/gpu/block/octet.cuh"
#include "format/layout.h"

namespace cinch::codec::gpu {

/// Where a tile's field stands, and this octet in it.
struct FieldPlace {
  uint8_t* bytes;          ///< Of the tile's field.
  uint32_t tile_elements;  ///< n_t.
  uint32_t first;          ///< The octet's first element, within the tile.
  uint32_t count;          ///< How many of its elements there are, 1 to 8.
};

/// Bytes of a plane that the elements of an octet take.
CINCH_PORTABLE uint32_t PieceBytes(uint32_t width, uint32_t count) {
  return (width * count + 7) / 8;
}

/// Writes eight bytes of a byte plane; returns the plane's end.
CINCH_PORTABLE uint8_t* WriteBytePlane(const FieldPlace& place, uint8_t* plane, Plane bytes) {
  StoreBytes<uint64_t>(plane + place.first, (uint64_t{bytes.high} << 32) | bytes.low, place.count);
  return plane + place.tile_elements;
}

CINCH_PORTABLE const uint8_t* ReadBytePlane(const FieldPlace& place, const uint8_t* plane,
                                            Plane* bytes) {
  const auto both = LoadBytes<uint64_t>(plane + place.first, place.count);
  *bytes = {static_cast<uint32_t>(both), static_cast<uint32_t>(both >> 32)};
  return plane + place.tile_elements;
}

/// Writes the `bits` (0 to 4) low bits of eight nibbles as a nibble, a crumb and a bit plane, as
/// needed, from `plane` on. Nibbles of elements that are not there must be 0.
CINCH_PORTABLE void WriteNibbles(const FieldPlace& place, uint8_t* plane, uint32_t bits,
                                 uint32_t nibbles) {
  const uint32_t octet = place.first / kOctet;
  if ((bits & 4) != 0) {
    StoreBytes<uint32_t>(plane + 4 * octet, nibbles, PieceBytes(4, place.count));
    return;
  }
  if ((bits & 2) != 0) {
    StoreBytes<uint16_t>(plane + 2 * octet, static_cast<uint16_t>(CrumbsOfNibbles(nibbles)),
                         PieceBytes(2, place.count));
    plane += format::FieldBytes(2, place.tile_elements);
    nibbles >>= 2;
  }
  if ((bits & 1) != 0) plane[octet] = static_cast<uint8_t>(BitsOfNibbles(nibbles));
}

/// The inverse of WriteNibbles. Reserved bits come back as nibbles of elements that are not there.
CINCH_PORTABLE uint32_t ReadNibbles(const FieldPlace& place, const uint8_t* plane, uint32_t bits) {
  const uint32_t octet = place.first / kOctet;
  if ((bits & 4) != 0) {
    return LoadBytes<uint32_t>(plane + 4 * octet, PieceBytes(4, place.count));
  }
  uint32_t nibbles = 0;
  uint32_t shift = 0;
  if ((bits & 2) != 0) {
    nibbles = NibblesOfCrumbs(LoadBytes<uint16_t>(plane + 2 * octet, PieceBytes(2, place.count)));
    plane += format::FieldBytes(2, place.tile_elements);
    shift = 2;
  }
  if ((bits & 1) != 0) nibbles |= NibblesOfBits(plane[octet]) << shift;
  return nibbles;
}

/// True when nibbles of elements that are not there are not zero.
CINCH_PORTABLE bool HasReservedNibbles(uint32_t nibbles, uint32_t count) {
  return count < kOctet && (nibbles >> (4 * count)) != 0;
}

/// A mask of four bits for each of the first `count` elements of an octet.
CINCH_PORTABLE uint32_t NibbleMask(uint32_t count) {
  return count >= kOctet ? 0xFFFFFFFF : (1U << (4 * count)) - 1;
}

}  // namespace cinch::codec::gpu
