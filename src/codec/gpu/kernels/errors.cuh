// SPDX-License-Identifier: Apache-2.0
/// @file errors.cuh
/// Many thread blocks meet errors in one item; the status is the one that a decoder who goes
/// through the frame in order would give.
#pragma once

#include <cstdint>

#include "cinch/status.h"
#include "codec/gpu/warp/portable.cuh"

namespace cinch::codec::gpu {

/// What is checked first weighs most.
enum class ErrorRank : uint32_t {
  kBlock = 1,
  kDestination = 2,
  kPadding = 3,
  kIndex = 4,
  kArrival = 5
};

/// The larger key is the graver error; of one rank, that of the earlier block. Never 0.
CINCH_PORTABLE uint64_t ErrorKey(ErrorRank rank, uint32_t block, int32_t status) {
  return (uint64_t{static_cast<uint32_t>(rank)} << 56) | (uint64_t{0xFFFFFFFF - block} << 16) |
         static_cast<uint16_t>(-status);
}
CINCH_PORTABLE int32_t StatusOfKey(uint64_t key) {
  return -static_cast<int32_t>(static_cast<uint16_t>(key));
}

}  // namespace cinch::codec::gpu
