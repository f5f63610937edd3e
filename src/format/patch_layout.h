// SPDX-License-Identifier: Apache-2.0
/// @file patch_layout.h
/// The structs of patches and every size and offset in them (docs/format.md, section 9).
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/block_hash.h"
#include "format/layout.h"

namespace cinch::format {

inline constexpr uint32_t kPatchMagic = 0x50434E43;  // "CNCP"
inline constexpr uint16_t kPatchVersion = 1;
inline constexpr uint32_t kPatchWordBytes = 2;
inline constexpr uint32_t kMaxPatchWords = kBlockBytes / kPatchWordBytes;
inline constexpr uint32_t kMaxPatchWidth = 16;

struct PatchHeader {
  uint32_t magic;
  uint16_t version;
  uint16_t reserved0;
  uint64_t original_bytes;
  uint64_t payload_bytes;
  uint32_t block_count;
  uint32_t block_bytes;
  uint64_t base_hash;
  uint64_t result_hash;
  uint8_t reserved1[12];
  uint32_t header_hash;
};
static_assert(sizeof(PatchHeader) == 64);

struct PatchBlockHeader {
  uint8_t width;  ///< Bits of each word's field.
  uint8_t reserved;
  uint16_t exceptions;  ///< How many words have their difference in the list.
  uint32_t checksum;    ///< Of the block's new bytes.
};
static_assert(sizeof(PatchBlockHeader) == 8);

/// The number of 16-bit words of a block of so many bytes.
CINCH_HOST_DEVICE constexpr uint32_t PatchWords(uint32_t length_bytes) {
  return (length_bytes + 1) / kPatchWordBytes;
}
/// Bytes of one plane of `bits` bits a word.
CINCH_HOST_DEVICE constexpr uint32_t PatchPlaneBytes(uint32_t words, uint32_t bits) {
  return (words * bits + 7) / 8;
}
/// Bytes of a field of `width` bits: its planes, up to a multiple of 8.
CINCH_HOST_DEVICE constexpr uint32_t PatchFieldBytes(uint32_t words, uint32_t width) {
  uint32_t bytes = width / 8 * words;
  for (uint32_t bits = 4; bits > 0; bits /= 2) {
    if ((width & bits) != 0) bytes += PatchPlaneBytes(words, bits);
  }
  return (bytes + 7) / 8 * 8;
}
/// Bytes of a block's payload.
CINCH_HOST_DEVICE constexpr uint32_t PatchPayloadBytes(uint32_t words, uint32_t width,
                                                       uint32_t exceptions) {
  const uint32_t used = static_cast<uint32_t>(sizeof(PatchBlockHeader)) +
                        PatchFieldBytes(words, width) + 4 * exceptions;
  return (used + kPayloadUnitBytes - 1) / kPayloadUnitBytes * kPayloadUnitBytes;
}
CINCH_HOST_DEVICE constexpr uint64_t PatchBound(uint64_t original_bytes) {
  const uint64_t blocks = BlockCount(original_bytes);
  return PayloadOffset(blocks) + blocks * PatchPayloadBytes(kMaxPatchWords, kMaxPatchWidth, 0);
}

/// The difference of two words as a number that is small when they are close.
CINCH_HOST_DEVICE constexpr uint32_t PatchDifference(uint32_t base, uint32_t word) {
  const uint32_t step = (word - base) & 0xFFFF;
  return ((step << 1) ^ ((step >> 15) * 0xFFFF)) & 0xFFFF;
}
CINCH_HOST_DEVICE constexpr uint32_t ApplyPatchDifference(uint32_t base, uint32_t difference) {
  const uint32_t step = (difference >> 1) ^ ((difference & 1) * 0xFFFF);
  return (base + step) & 0xFFFF;
}

/// Every eighth chunk of 8 words, a different one in each row of 64 words, is counted to choose the
/// width.
CINCH_HOST_DEVICE constexpr bool InPatchSample(uint32_t word) {
  return word / 2048 == word / 8 % 8;
}

/// The widths that encoders choose from: 0 to 10, 12 and 16.
inline constexpr uint32_t kPatchWidthCount = 13;
CINCH_HOST_DEVICE constexpr uint32_t PatchWidthAt(uint32_t index) {
  return index <= 10 ? index : index == 11 ? 12 : 16;
}

}  // namespace cinch::format
