// SPDX-License-Identifier: Apache-2.0
/// @file wait.cuh
/// Waiting that ends: by the peer's word, by a time limit, or because somebody has given up. Device
/// only.
#pragma once

#include <cstdint>

#include "cinch/status.h"
#include "collectives/fused/memory.cuh"
#include "collectives/fused/parameters.h"
#include "collectives/fused/protocol.h"

namespace cinch::fused {

/// What a warp waits for, for the report.
struct Waited {
  uint32_t peer;
  uint32_t waits_for_data;
  uint32_t channel;
  uint64_t step;
};

/// By one lane: tells the host and every rank, unless somebody has already.
__device__ __noinline__ void GiveUp(const Parameters& parameters, const Waited& waited,
                                    int32_t status, uint32_t expected, uint32_t seen) {
  Report* report = parameters.wait.report;
  if (atomicCAS_system(&report->state, 0U, 1U) == 0) {
    report->status = status;
    report->rank = parameters.rank;
    report->peer = waited.peer;
    report->waits_for_data = waited.waits_for_data;
    report->channel = waited.channel;
    report->expected = expected;
    report->seen = seen;
    report->step = waited.step;
    StoreReleaseSystem(&report->state, 2U);
  }
  for (uint32_t rank = 0; rank < parameters.layout.ranks; ++rank) {
    auto* stop = reinterpret_cast<uint32_t*>(parameters.window[rank] + kStopOffset);
    StoreRelaxedSystem(stop, parameters.rank + 1);
  }
}

/// A time limit that starts when it is first asked.
class Patience {
 public:
  /// By one lane, between two looks: whether to look again. False after it has given up.
  __device__ __forceinline__ bool KeepsWaiting(const Parameters& parameters, const Waited& waited,
                                               uint32_t expected, uint32_t seen) {
    const auto* stop =
        reinterpret_cast<const uint32_t*>(parameters.window[parameters.rank] + kStopOffset);
    const uint64_t now = NanosecondsNow();
    if (start_ == 0) {
      start_ = now;
      next_host_look_ = now + kHostLookNanoseconds;
    }
    const uint32_t stopped_by = LoadRelaxedSystem(stop);
    if (stopped_by != 0) {
      GiveUp(parameters, waited,
             stopped_by == parameters.rank + 1 ? CINCH_ERROR_CANCELLED : CINCH_ERROR_PEER_LOST,
             expected, seen);
      return false;
    }
    if (now - start_ > parameters.wait.timeout_nanoseconds) {
      GiveUp(parameters, waited, CINCH_ERROR_TIMEOUT, expected, seen);
      return false;
    }
    // The host's word is behind PCIe, which thousands of warps that ask every few microseconds
    // would block: 32 MB took milliseconds.
    if (now < next_host_look_) return true;
    next_host_look_ = now + kHostLookNanoseconds;
    if (LoadRelaxedSystem(parameters.wait.host_stop) == 0) return true;
    GiveUp(parameters, waited, CINCH_ERROR_CANCELLED, expected, seen);
    return false;
  }

 private:
  static constexpr uint64_t kHostLookNanoseconds = 4000000;
  uint64_t start_ = 0;
  uint64_t next_host_look_ = 0;
};

}  // namespace cinch::fused
