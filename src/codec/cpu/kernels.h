// SPDX-License-Identifier: Apache-2.0
/// @file kernels.h
/// The block codec as compiled for one SIMD target. encoder.cc and decoder.cc are compiled once for
/// each target of highway_targets.h; cpu_target.cc picks.
#pragma once

#include <cstdint>

#include "codec/block_codec.h"

namespace cinch::codec::cpu {

using EncodeFunction = EncodedBlock (*)(const BlockInput& input, uint8_t* payload);
using DecodeFunction = Status (*)(const BlockPayload& payload, uint8_t* output, uint64_t* hash);
using HashFunction = uint64_t (*)(const uint8_t* bytes, uint32_t length_bytes, uint64_t index);

/// The function compiled for `target`, one of Highway's HWY_* bits; null when there is none.
EncodeFunction EncoderFor(int64_t target);
DecodeFunction DecoderFor(int64_t target);
HashFunction HasherFor(int64_t target);

}  // namespace cinch::codec::cpu
