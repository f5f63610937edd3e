// SPDX-License-Identifier: Apache-2.0
/// @file reference.h
/// The plain codec: written for reading, from docs/format.md. The oracle of every fast codec.
#pragma once

#include "codec/block_codec.h"

namespace cinch::codec::reference {

EncodedBlock EncodeBlock(const BlockInput& input, uint8_t* payload);
Status DecodeBlock(const BlockPayload& payload, uint8_t* output, uint64_t* hash);

}  // namespace cinch::codec::reference
