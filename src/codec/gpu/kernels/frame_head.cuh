// SPDX-License-Identifier: Apache-2.0
/// @file frame_head.cuh
/// A frame's header on the device (docs/format.md, section 2.1), with the checks of
/// codec/frame/frame_format.cc in their order. Compiles for the host, too, for the tests.
#pragma once

#include <cstdint>

#include "cinch/status.h"
#include "codec/gpu/kernels/batch.cuh"
#include "codec/gpu/warp/portable.cuh"
#include "format/block_hash.h"
#include "format/layout.h"

namespace cinch::codec::gpu {

inline constexpr uint32_t kHeaderWords = sizeof(format::FrameHeader) / 4;

/// A header as words: what a thread keeps in registers.
struct HeaderWords {
  uint32_t word[kHeaderWords];

  CINCH_PORTABLE uint32_t Hash() const {
    uint64_t sum = 0;
    for (uint32_t pair = 0; pair < kHeaderWords / 2; ++pair) {
      const uint32_t odd = 2 * pair + 1 == kHeaderWords - 1 ? 0 : word[2 * pair + 1];
      sum += format::HashPair(pair, word[2 * pair], odd);
    }
    return static_cast<uint32_t>(
        format::FinishHash(sum, sizeof(format::FrameHeader) - 4, format::kHeaderHashIndex));
  }
  CINCH_PORTABLE uint64_t Wide(uint32_t i) const { return (uint64_t{word[i + 1]} << 32) | word[i]; }
  CINCH_PORTABLE uint32_t version() const { return word[1] & 0xFFFF; }
  CINCH_PORTABLE uint32_t dtype() const { return (word[1] >> 16) & 0xFF; }
  CINCH_PORTABLE uint32_t flags() const { return word[1] >> 24; }
  CINCH_PORTABLE uint64_t original_bytes() const { return Wide(2); }
  CINCH_PORTABLE uint64_t payload_bytes() const { return Wide(4); }
  CINCH_PORTABLE uint64_t content_hash() const { return Wide(8); }
  CINCH_PORTABLE uint64_t base_hash() const { return Wide(10); }
  CINCH_PORTABLE bool delta() const { return (flags() & format::kFlagDelta) != 0; }
};

CINCH_PORTABLE HeaderWords MakeHeaderWords(const PlanItem& item, uint64_t payload_bytes,
                                           uint64_t content_hash) {
  HeaderWords header{};
  const bool delta = item.base != nullptr;
  const uint32_t flags =
      (item.checksum != 0 ? format::kFlagChecksum : 0) | (delta ? format::kFlagDelta : 0);
  header.word[0] = format::kMagic;
  header.word[1] = format::kVersion | (item.dtype << 16) | (flags << 24);
  header.word[2] = static_cast<uint32_t>(item.original_bytes);
  header.word[3] = static_cast<uint32_t>(item.original_bytes >> 32);
  header.word[4] = static_cast<uint32_t>(payload_bytes);
  header.word[5] = static_cast<uint32_t>(payload_bytes >> 32);
  header.word[6] = item.blocks;
  header.word[7] = format::kBlockBytes;
  header.word[8] = static_cast<uint32_t>(content_hash);
  header.word[9] = static_cast<uint32_t>(content_hash >> 32);
  if (delta) {
    header.word[10] = static_cast<uint32_t>(item.content_hash);
    header.word[11] = static_cast<uint32_t>(item.content_hash >> 32);
  }
  header.word[kHeaderWords - 1] = header.Hash();
  return header;
}

/// Checks a header and the frame's size against it.
CINCH_PORTABLE int32_t CheckHeader(const HeaderWords& header, uint64_t frame_bytes) {
  if (header.word[0] != format::kMagic) return CINCH_ERROR_FRAME_MAGIC;
  if (header.version() != format::kVersion) return CINCH_ERROR_FRAME_VERSION;
  if (header.word[kHeaderWords - 1] != header.Hash()) return CINCH_ERROR_FRAME_HEADER;
  uint32_t reserved =
      header.flags() & ~(uint32_t{format::kFlagChecksum} | uint32_t{format::kFlagDelta});
  for (uint32_t i = header.delta() ? 12 : 10; i < kHeaderWords - 1; ++i) {
    reserved |= header.word[i];
  }
  if (reserved != 0) return CINCH_ERROR_FRAME_RESERVED;
  const uint64_t blocks = format::BlockCount(header.original_bytes());
  const bool fields_are_valid = format::IsFrameDtype(header.dtype()) &&
                                header.original_bytes() <= CINCH_MAX_FRAME_INPUT_BYTES &&
                                header.payload_bytes() % format::kPayloadUnitBytes == 0 &&
                                header.payload_bytes() < format::kMaxPayloadBytes &&
                                header.word[6] == blocks && header.word[7] == format::kBlockBytes &&
                                ((header.flags() & format::kFlagChecksum) != 0 ||
                                 (header.content_hash() == 0 && !header.delta()));
  if (!fields_are_valid) return CINCH_ERROR_FRAME_HEADER;
  const uint64_t size_bytes = format::PayloadOffset(blocks) + header.payload_bytes();
  if (frame_bytes < size_bytes) return CINCH_ERROR_FRAME_TRUNCATED;
  return frame_bytes > size_bytes ? CINCH_ERROR_FRAME_TRAILING : CINCH_OK;
}

}  // namespace cinch::codec::gpu
