// SPDX-License-Identifier: Apache-2.0
/// @file detect.h
/// The choice of a block's dtype (docs/format.md, section 7.3).
#pragma once

#include "codec/block_codec.h"

namespace cinch::codec::cpu {

/// The dtype that `input`'s block is coded with.
uint32_t ChooseDtype(const BlockInput& input);

}  // namespace cinch::codec::cpu
