// SPDX-License-Identifier: Apache-2.0
/// @file sample.h
/// What the encoder learns from a block's sample (docs/format.md, section 7.1).
#pragma once

#include <cstdint>

#include "codec/plan/codebook.h"

namespace cinch::codec::cpu {

struct Sample {
  SymbolCounts counts;
  uint64_t any = 0;  ///< OR of the elements in split order.
};

/// The sample of a block of at least one element.
void TakeSample(uint32_t dtype, const uint8_t* bytes, uint32_t length_bytes, Sample* sample);

/// The detection sample (section 7.3).
void TakeDetectionSample(uint32_t dtype, const uint8_t* bytes, uint32_t length_bytes,
                         Sample* sample);

}  // namespace cinch::codec::cpu
