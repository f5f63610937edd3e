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
/// 16 warps that decode and three that see to it that they can. 2 thread blocks rather than 3,
/// whose threads would have 32 registers: with 48 there are hardly any spills. (H200, bf16, 256 MB:
/// 149 us; with one loader and 56 registers it was the same.)
inline constexpr Tuning kDecodeTuning{608, 2};

/// Room for any payload, and for reads of a whole warp behind its end.
inline constexpr uint32_t kDecodeSlotBytes = 33152;
/// As much as the general path needs beside a slot.
inline constexpr uint32_t kDecodeListBytes = 33152;

}  // namespace cinch::codec::gpu
