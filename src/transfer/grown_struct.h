// SPDX-License-Identifier: Apache-2.0
// Structs of the C ABI that have grown: callers that were built before use the shorter one.
#pragma once

#include <cstddef>
#include <cstring>

#include "cinch/transfer.h"
#include "transfer/operation.h"

namespace cinch::transfer {

/// Takes the fields that the caller knows into `grown`, which holds the defaults of the others.
/// False: the size is neither today's nor `first_bytes`, that of the first version.
template <typename Struct>
[[nodiscard]] bool TakeGrown(const Struct& given, size_t first_bytes, Struct& grown) {
  const size_t bytes = given.struct_size;
  if (bytes != sizeof(Struct) && bytes != first_bytes) return false;
  std::memcpy(&grown, &given, bytes);
  return true;
}

[[nodiscard]] inline bool HasKnownSize(const cinch_transfer_stats& stats) {
  return stats.struct_size == sizeof(stats) ||
         stats.struct_size == offsetof(cinch_transfer_stats, pinned_segments);
}

/// Fills in what the caller's struct, of a known size, has room for.
inline void ExportStats(const Metrics& metrics, double link_gbps, cinch_transfer_stats& stats) {
  cinch_transfer_stats whole{};
  whole.struct_size = stats.struct_size;
  metrics.Export(whole);
  whole.link_gbps_limit = link_gbps;
  std::memcpy(&stats, &whole, stats.struct_size);
}

}  // namespace cinch::transfer
