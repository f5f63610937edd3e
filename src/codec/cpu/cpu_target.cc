// SPDX-License-Identifier: Apache-2.0
#include "codec/cpu/cpu_target.h"

#include <array>
#include <atomic>

#include "base/guarded.h"
#include "cinch/codec.h"
#include "codec/cpu/highway_targets.h"
// After the targets have been chosen.
#include "hwy/targets.h"

namespace cinch::codec {
namespace cpu {
namespace {

struct Target {
  const char* name;
  int64_t highway_target;
  SimdTarget at_least;  ///< The lowest limit that still allows it.
};

// Best first; scalar runs everywhere. We choose by ourselves because Highway's own limit would also
// bind other users of Highway in the process.
constexpr std::array<Target, 4> kTargets = {{{"avx512", HWY_AVX3_DL, SimdTarget::kAvx512},
                                             {"avx2", HWY_AVX2, SimdTarget::kAvx2},
                                             {"neon", HWY_NEON, SimdTarget::kAvx2},
                                             {"scalar", HWY_EMU128, SimdTarget::kScalar}}};

bool Allows(SimdTarget limit, SimdTarget target) {
  return limit == SimdTarget::kAuto || static_cast<int>(target) <= static_cast<int>(limit);
}

BlockKernels KernelsOf(const Target& target) {
  return {target.name, EncoderFor(target.highway_target), DecoderFor(target.highway_target),
          HasherFor(target.highway_target)};
}

const BlockKernels* Choose(SimdTarget limit) {
  static const std::array<BlockKernels, kTargets.size()> kernels = {
      KernelsOf(kTargets[0]), KernelsOf(kTargets[1]), KernelsOf(kTargets[2]),
      KernelsOf(kTargets[3])};
  const int64_t supported = hwy::SupportedTargets() | HWY_EMU128;
  for (size_t i = 0; i < kTargets.size(); ++i) {
    const bool available = kernels[i].encode != nullptr && kernels[i].decode != nullptr;
    if (available && (supported & kTargets[i].highway_target) != 0 &&
        Allows(limit, kTargets[i].at_least)) {
      return &kernels[i];
    }
  }
  return &kernels.back();
}

std::atomic<const BlockKernels*>& Active() {
  static std::atomic<const BlockKernels*> active{Choose(ProcessConfig().simd)};
  return active;
}

}  // namespace

const BlockKernels& ActiveKernels() { return *Active().load(std::memory_order_acquire); }

}  // namespace cpu

void SetCpuTargetLimit(SimdTarget limit) {
  cpu::Active().store(cpu::Choose(limit), std::memory_order_release);
}

const char* CpuTargetName() { return cpu::ActiveKernels().name; }

}  // namespace cinch::codec

extern "C" const char* cinch_simd_target(void) {
  return cinch::GuardedOr(static_cast<const char*>(""),
                          [&] { return cinch::codec::CpuTargetName(); });
}
