// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/status.h"
#include "format/patch_layout.h"

namespace cinch::codec {

/// Reads and checks a patch's header and that the patch has the size that it says. Everything but
/// the index and the blocks.
[[nodiscard]] Status ReadPatchHeader(const uint8_t* patch, uint64_t patch_bytes,
                                     format::PatchHeader& header);
/// Fills in the hash of a header that is otherwise complete.
void SealPatchHeader(format::PatchHeader& header);

}  // namespace cinch::codec
