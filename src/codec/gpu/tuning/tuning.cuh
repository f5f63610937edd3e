// SPDX-License-Identifier: Apache-2.0
/// @file tuning.cuh
/// The numbers that trade one resource for another, each with its reason. Kernels and the launches
/// read the same values.
#pragma once

#include <cstdint>

namespace cinch::codec::gpu {

struct Tuning {
  /// A warp for each tile of a 16-bit dtype's block.
  uint32_t threads;
  /// Thread blocks a multiprocessor: registers are limited to suit it. Shared memory allows as many
  /// on sm_90 and sm_100, and one on sm_80.
  uint32_t min_ctas_per_sm;
};

inline constexpr Tuning kEncodeTuning{512, 2};
/// From so many thread blocks on one of them turns sizes into places for the others.
inline constexpr uint32_t kMinScanCtas = 48;
/// 2 rather than 3: with 64 registers a thread instead of 40 nothing spills, which is worth more
/// than a third thread block (H200, bf16: 2.15 against 1.9 TB/s with the prototype).
inline constexpr Tuning kDecodeTuning{512, 2};

/// Payloads up to this size are copied to shared memory ahead of time; a whole bf16 block of usual
/// data takes 21.9 KB. As large as two thread blocks a multiprocessor allow.
inline constexpr uint32_t kDecodeSlotBytes = 22912;

}  // namespace cinch::codec::gpu
