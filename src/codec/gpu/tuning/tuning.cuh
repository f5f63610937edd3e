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
  /// Thread blocks a multiprocessor: registers are limited to suit it. About 72 KiB of shared
  /// memory each, of 227 (sm_90, sm_100) or 163 KiB (sm_80, where 2 fit).
  uint32_t min_ctas_per_sm;
};

inline constexpr Tuning kEncodeTuning{512, 2};
inline constexpr Tuning kDecodeTuning{512, 2};

}  // namespace cinch::codec::gpu
