// SPDX-License-Identifier: Apache-2.0
/// @file compress_tables.h
/// Byte compress and expand of 8 bytes by a shuffle, for targets that have no instruction for it.
/// (pext and pdep would do the same, but take hundreds of cycles on the first two Zens.)
#pragma once

#include <cstdint>

namespace cinch::codec::cpu {

/// Shuffle indices for each mask of 8 bytes; 0x80 yields zero.
struct CompressTables {
  uint8_t compress[256][8] = {};
  uint8_t expand[256][8] = {};

  constexpr CompressTables() {
    for (uint32_t mask = 0; mask < 256; ++mask) {
      uint8_t rank = 0;
      for (uint8_t i = 0; i < 8; ++i) {
        compress[mask][i] = 0x80;
        expand[mask][i] = 0x80;
      }
      for (uint8_t i = 0; i < 8; ++i) {
        if (((mask >> i) & 1) == 0) continue;
        compress[mask][rank] = i;
        expand[mask][i] = rank;
        ++rank;
      }
    }
  }
};

inline constexpr CompressTables kCompressTables;

}  // namespace cinch::codec::cpu
