// SPDX-License-Identifier: Apache-2.0
#include "codec/cpu/partial_tile.h"

#include <cstring>
#include <initializer_list>

#include "codec/cpu/element.h"

namespace cinch::codec::cpu {
namespace {

/// A plane of `width` bits a value that has value j at byte j mod stride.
struct StridedPlane {
  uint32_t width;
  uint32_t low_bit;  ///< Where the plane's bits stand in a value.
  uint32_t stride;   ///< Also its size in bytes.
  uint32_t count;

  StridedPlane(uint32_t width_bits, uint32_t low_bit_in, uint32_t values)
      : width(width_bits),
        low_bit(low_bit_in),
        stride((values + 8 / width_bits - 1) / (8 / width_bits)),
        count(values) {}

  void Pack(const uint8_t* values, uint8_t* plane) const {
    const uint32_t mask = (1U << width) - 1;
    std::memset(plane, 0, stride);
    for (uint32_t shift = 0, j = 0; j < count; shift += width) {
      for (uint32_t i = 0; i < stride && j < count; ++i, ++j) {
        plane[i] = static_cast<uint8_t>(plane[i] | (((values[j] >> low_bit) & mask) << shift));
      }
    }
  }

  bool Unpack(const uint8_t* plane, uint8_t* values) const {
    const uint32_t mask = (1U << width) - 1;
    uint32_t reserved = 0;
    for (uint32_t shift = 0, j = 0; shift < 8; shift += width) {
      for (uint32_t i = 0; i < stride; ++i, ++j) {
        const uint32_t bits = (plane[i] >> shift) & mask;
        if (j < count) {
          values[j] = static_cast<uint8_t>(values[j] | (bits << low_bit));
        } else {
          reserved |= bits;
        }
      }
    }
    return reserved == 0;
  }
};

/// The bit plane, whose bytes hold eight neighbours.
void PackBits(const uint8_t* values, uint32_t count, uint32_t low_bit, uint8_t* plane) {
  std::memset(plane, 0, (count + 7) / 8);
  for (uint32_t j = 0; j < count; ++j) {
    plane[j / 8] = static_cast<uint8_t>(plane[j / 8] | (((values[j] >> low_bit) & 1) << (j % 8)));
  }
}

bool UnpackBits(const uint8_t* plane, uint32_t count, uint32_t low_bit, uint8_t* values) {
  for (uint32_t j = 0; j < count; ++j) {
    values[j] = static_cast<uint8_t>(values[j] | (((plane[j / 8] >> (j % 8)) & 1) << low_bit));
  }
  return count % 8 == 0 || (plane[count / 8] >> (count % 8)) == 0;
}

}  // namespace

void PackPartialField(const uint8_t* values, uint32_t count, uint32_t bits, uint8_t* planes) {
  uint32_t low_bit = 0;
  for (const uint32_t width : {4U, 2U}) {
    if ((bits & width) == 0) continue;
    const StridedPlane plane(width, low_bit, count);
    plane.Pack(values, planes);
    planes += plane.stride;
    low_bit += width;
  }
  if ((bits & 1) != 0) PackBits(values, count, low_bit, planes);
}

bool UnpackPartialField(const uint8_t* planes, uint32_t count, uint32_t bits, uint8_t* values) {
  std::memset(values, 0, kTile);
  uint32_t low_bit = 0;
  for (const uint32_t width : {4U, 2U}) {
    if ((bits & width) == 0) continue;
    const StridedPlane plane(width, low_bit, count);
    if (!plane.Unpack(planes, values)) return false;
    planes += plane.stride;
    low_bit += width;
  }
  return (bits & 1) == 0 || UnpackBits(planes, count, low_bit, values);
}

LooseElements LooseElementsOf(const format::DtypeTraits& traits, uint32_t count) {
  if (!traits.rotated) return {count, count};
  return {WordElements(traits.element_bytes, count * traits.element_bytes), count};
}

void SplitLooseElements(const format::DtypeTraits& traits, uint32_t count, const uint8_t* bytes,
                        const PlanePointers& planes, SplitTile* tile) {
  const LooseElements loose = LooseElementsOf(traits, count);
  const uint32_t bits = 8 * traits.element_bytes;
  const uint32_t low_bits = traits.residue_bits % 8;
  for (uint32_t j = loose.first; j < loose.last; ++j) {
    uint32_t element = 0;
    std::memcpy(&element, bytes + j * traits.element_bytes, traits.element_bytes);
    element = RotateLeft(element, bits, 1);
    if (traits.residue_bits >= 8) planes.at[0][j] = static_cast<uint8_t>(element);
    const uint32_t top = element >> (bits - 8);
    tile->symbols.at[j] = static_cast<uint8_t>(top >> low_bits);
    tile->low_bits.at[j] = static_cast<uint8_t>(top & ((1U << low_bits) - 1));
  }
}

void JoinLooseElements(const format::DtypeTraits& traits, uint32_t count, const SplitTile& tile,
                       const ConstPlanePointers& planes, uint8_t* bytes) {
  const LooseElements loose = LooseElementsOf(traits, count);
  const uint32_t bits = 8 * traits.element_bytes;
  const uint32_t low_bits = traits.residue_bits % 8;
  for (uint32_t j = loose.first; j < loose.last; ++j) {
    uint32_t top = uint32_t{tile.symbols.at[j]} << low_bits;
    if (low_bits != 0) top |= tile.low_bits.at[j];
    uint32_t element = top << (bits - 8);
    if (traits.residue_bits >= 8) element |= planes.at[0][j];
    element = RotateLeft(element, bits, bits - 1);
    std::memcpy(bytes + j * traits.element_bytes, &element, traits.element_bytes);
  }
}

}  // namespace cinch::codec::cpu
