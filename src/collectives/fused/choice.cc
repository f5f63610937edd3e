// SPDX-License-Identifier: Apache-2.0
/// When a fused operation is the better one. From bench/results/fused.json: two H200s over NVLink
/// 4, 64 multiprocessors, NCCL 2.28.9 with its defaults in the same run.
#include "cinch/fused.h"

namespace {

/// The shortest message that was measured to gain, and that no longer one lost.
constexpr uint64_t kGainsFromBytes = uint64_t{32} << 20;

}  // namespace

extern "C" int cinch_fused_pays(cinch_fused_operation operation, uint64_t bytes) {
  switch (operation) {
    case CINCH_FUSED_SEND:
    case CINCH_FUSED_EXCHANGE:
    case CINCH_FUSED_ALL_GATHER:
    case CINCH_FUSED_REDUCE_SCATTER:
      return bytes >= kGainsFromBytes ? 1 : 0;
    case CINCH_FUSED_ALL_TO_ALL:  // 0.89 to 1.05 of NCCL.
    case CINCH_FUSED_ALL_REDUCE:  // 0.41 to 0.80.
    case CINCH_FUSED_BROADCAST:   // Not measured.
      return 0;
  }
  return 0;
}
