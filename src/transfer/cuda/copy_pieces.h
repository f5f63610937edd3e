// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace cinch::transfer {

/// A part of a list of pieces, and where it is when the pieces stand one after another.
struct CopyEntry {
  uint8_t* piece;
  uint8_t* flat;
  uint64_t bytes;
};

/// Entries are cut to this size, so that a few large ones keep all of a device busy.
inline constexpr uint64_t kMaxCopyEntryBytes = uint64_t{32} << 10;

/// Enqueues the copy of `count` entries, which the device reads from `entries`: from the pieces
/// when `gather`, otherwise to them. `max_ctas` 0: as many thread blocks as there are entries.
[[nodiscard]] cudaError_t LaunchCopyPieces(const CopyEntry* entries, uint32_t count, bool gather,
                                           uint32_t max_ctas, cudaStream_t stream);

}  // namespace cinch::transfer
