// SPDX-License-Identifier: Apache-2.0
/// @file emulated_batch.h
/// Memory of a batch for the kernels on an emulated GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "codec/gpu/kernels/batch.cuh"
#include "format/layout.h"
#include "support/cpu_frames.h"

namespace cinch::codec::gpu {

inline constexpr size_t kBlock = format::kBlockBytes;

/// Lengths around what lanes, warps and blocks take, an empty one and ones that 32 does not divide.
inline constexpr size_t kLengths[] = {32,   64,    96,          480,    512, 544, 1056, 4096,
                                      4128, 16384, kBlock - 32, kBlock, 0,   100, 4097};

/// Memory whose start 256 divides.
class Aligned {
 public:
  explicit Aligned(size_t bytes) : memory_(bytes + 256) {}
  uint8_t* data() {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (256 - address % 256) % 256;
  }

 private:
  test::Bytes memory_;
};

/// Scratch memory that is prepared as cinch_cuda_scratch_init does it.
class PreparedScratch {
 public:
  PreparedScratch(uint64_t max_items, uint64_t max_units)
      : memory_(LayOutScratch(nullptr, max_items, max_units, &scratch_)) {
    LayOutScratch(memory_.data(), max_items, max_units, &scratch_);
    *scratch_.header = {};
    scratch_.header->magic = kScratchMagic;
    scratch_.header->max_items = max_items;
    scratch_.header->max_units = max_units;
    scratch_.header->epoch = 1;
  }
  [[nodiscard]] const Scratch& get() const { return scratch_; }

 private:
  Scratch scratch_;
  Aligned memory_;
};

}  // namespace cinch::codec::gpu
