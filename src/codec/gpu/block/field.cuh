// SPDX-License-Identifier: Apache-2.0
/// @file field.cuh
/// Fields of a block in planes, an octet at a time (docs/format.md, section 5.1), and how warps
/// share its elements out.
#pragma once

#include <cstdint>

#include "codec/gpu/block/octet.cuh"
#include "format/layout.h"

namespace cinch::codec::gpu {

/// A warp's part of a row of elements or list entries: [begin, end), the same steps for all but the
/// last warps.
struct Share {
  uint32_t begin;
  uint32_t end;
};

/// The share of this warp; it begins at a multiple of `step` x the warp's lanes, or is empty.
template <typename Team>
CINCH_TEAM Share ShareOf(const Team& team, uint32_t count, uint32_t step) {
  const uint32_t turn = step * Team::kLanes;
  const uint32_t size = (count + turn * team.warps() - 1) / (turn * team.warps()) * turn;
  const uint32_t begin = Minimum(size * team.warp(), count);
  return {begin, Minimum(begin + size, count)};
}

/// An octet's place in a block's fields.
struct FieldPlace {
  uint32_t elements;  ///< Of the block.
  uint32_t first;     ///< The octet's first element.
  uint32_t count;     ///< How many of its elements there are, 1 to 8.
};

/// Bytes of a plane that the elements of an octet take.
CINCH_PORTABLE uint32_t PieceBytes(uint32_t width, uint32_t count) {
  return (width * count + 7) / 8;
}

/// Writes eight bytes of a byte plane; returns the plane's end.
CINCH_PORTABLE uint8_t* WriteBytePlane(const FieldPlace& place, uint8_t* plane, Plane bytes) {
  StoreBytes<uint64_t>(plane + place.first, (uint64_t{bytes.high} << 32) | bytes.low, place.count);
  return plane + place.elements;
}

CINCH_PORTABLE const uint8_t* ReadBytePlane(const FieldPlace& place, const uint8_t* plane,
                                            Plane* bytes) {
  const auto both = LoadBytes<uint64_t>(plane + place.first, place.count);
  *bytes = {static_cast<uint32_t>(both), static_cast<uint32_t>(both >> 32)};
  return plane + place.elements;
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
    plane += format::FieldBytes(2, place.elements);
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
    plane += format::FieldBytes(2, place.elements);
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
