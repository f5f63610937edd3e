// SPDX-License-Identifier: Apache-2.0
#include "codec/cpu/loose_elements.h"

#include <cstring>

#include "codec/cpu/element.h"

namespace cinch::codec::cpu {
namespace {

/// The first loose element of a chunk; `count` for dtypes that are not rotated.
uint32_t FirstLoose(const format::DtypeTraits& traits, uint32_t count) {
  return traits.rotated ? WordElements(traits.element_bytes, count * traits.element_bytes) : count;
}

}  // namespace

void SplitLooseElements(const format::DtypeTraits& traits, uint32_t count, const uint8_t* bytes,
                        const PlanePointers& planes, SplitChunk* chunk) {
  const uint32_t bits = 8 * traits.element_bytes;
  const uint32_t low_bits = traits.residue_bits % 8;
  for (uint32_t j = FirstLoose(traits, count); j < count; ++j) {
    uint32_t element = 0;
    std::memcpy(&element, bytes + j * traits.element_bytes, traits.element_bytes);
    element = RotateLeft(element, bits, 1);
    if (traits.residue_bits >= 8) planes.at[0][j] = static_cast<uint8_t>(element);
    const uint32_t top = element >> (bits - 8);
    chunk->symbols.at[j] = static_cast<uint8_t>(top >> low_bits);
    chunk->low_bits.at[j] = static_cast<uint8_t>(top & ((1U << low_bits) - 1));
  }
}

void JoinLooseElements(const format::DtypeTraits& traits, uint32_t count, const SplitChunk& chunk,
                       const ConstPlanePointers& planes, uint8_t* bytes) {
  const uint32_t bits = 8 * traits.element_bytes;
  const uint32_t low_bits = traits.residue_bits % 8;
  for (uint32_t j = FirstLoose(traits, count); j < count; ++j) {
    uint32_t top = uint32_t{chunk.symbols.at[j]} << low_bits;
    if (low_bits != 0) top |= chunk.low_bits.at[j];
    uint32_t element = top << (bits - 8);
    if (traits.residue_bits >= 8) element |= planes.at[0][j];
    element = RotateLeft(element, bits, bits - 1);
    std::memcpy(bytes + j * traits.element_bytes, &element, traits.element_bytes);
  }
}

}  // namespace cinch::codec::cpu
