// SPDX-License-Identifier: Apache-2.0
/// @file sample.h
/// What the encoder learns from a block's samples (docs/format.md, sections 7.1 and 7.3). Blocks
/// have at least one element of the dtype in question.
#pragma once

#include <cstdint>

#include "codec/plan/codebook.h"

namespace cinch::codec::cpu {

/// Counts the symbols of the sample.
void CountSample(uint32_t dtype, const uint8_t* bytes, uint32_t length_bytes, SymbolCounts* counts);

/// A mask of the residue byte planes that are zero in the whole sample. Mostly none is, which the
/// first few samples tell.
uint32_t SampleZeroPlanes(uint32_t dtype, const uint8_t* bytes, uint32_t length_bytes);

/// How many samples are elements that are zero.
uint32_t CountSampleZeros(uint32_t dtype, const uint8_t* bytes, uint32_t length_bytes);

/// The same for the detection sample.
void CountDetectionSample(uint32_t dtype, const uint8_t* bytes, uint32_t length_bytes,
                          SymbolCounts* counts);
uint32_t DetectionZeroPlanes(uint32_t dtype, const uint8_t* bytes, uint32_t length_bytes);
uint32_t CountDetectionZeros(uint32_t dtype, const uint8_t* bytes, uint32_t length_bytes);

}  // namespace cinch::codec::cpu
