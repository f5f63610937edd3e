// SPDX-License-Identifier: Apache-2.0
/// @file cpu_target.h
/// Which SIMD target the CPU codec uses in this process.
#pragma once

#include "base/config.h"
#include "codec/cpu/kernels.h"

namespace cinch::codec {

/// The highest target that the codec may use from now on, in the whole process; the machine's best
/// one when that is lower. Safe at any time, also while blocks are coded: all targets agree.
void SetCpuTargetLimit(SimdTarget limit);

/// The target in use: "avx512", "avx2", "neon" or "scalar".
const char* CpuTargetName();

namespace cpu {

/// One target's kernels.
struct BlockKernels {
  const char* name;
  EncodeFunction encode;
  DecodeFunction decode;
  HashFunction hash;
};

const BlockKernels& ActiveKernels();

}  // namespace cpu
}  // namespace cinch::codec
