// SPDX-License-Identifier: Apache-2.0
/// @file loose_elements.h
/// The up to three elements at a block's end that are not in a whole 32-bit word: they are rotated
/// by themselves (docs/format.md, section 3).
#pragma once

#include <cstdint>

#include "codec/cpu/chunk.h"

namespace cinch::codec::cpu {

/// Splits the loose elements of a chunk of `count` elements at `bytes` again.
void SplitLooseElements(const format::DtypeTraits& traits, uint32_t count, const uint8_t* bytes,
                        const PlanePointers& planes, SplitChunk* chunk);

/// Joins them again.
void JoinLooseElements(const format::DtypeTraits& traits, uint32_t count, const SplitChunk& chunk,
                       const ConstPlanePointers& planes, uint8_t* bytes);

}  // namespace cinch::codec::cpu
