// SPDX-License-Identifier: Apache-2.0
#include "codec/frame/frame_format.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "format/block_hash.h"

namespace cinch::codec {
namespace {

uint32_t HeaderHash(const format::FrameHeader& header) {
  uint8_t bytes[sizeof header];
  std::memcpy(bytes, &header, sizeof header);
  return static_cast<uint32_t>(format::BlockHash(bytes, offsetof(format::FrameHeader, header_hash),
                                                 format::kHeaderHashIndex));
}

Status CheckFields(const format::FrameHeader& header) {
  const bool fields_are_valid =
      format::IsFrameDtype(header.dtype) && header.original_bytes <= CINCH_MAX_FRAME_INPUT_BYTES &&
      header.payload_bytes % format::kPayloadUnitBytes == 0 &&
      header.payload_bytes < format::kMaxPayloadBytes &&
      header.block_count == format::BlockCount(header.original_bytes) &&
      header.block_bytes == format::kBlockBytes &&
      ((header.flags & format::kFlagChecksum) != 0 ||
       (header.content_hash == 0 && (header.flags & format::kFlagDelta) == 0));
  return fields_are_valid ? CINCH_OK : CINCH_ERROR_FRAME_HEADER;
}

}  // namespace

format::FrameHeader MakeHeader(const HeaderFields& fields) {
  format::FrameHeader header{};
  header.magic = format::kMagic;
  header.version = format::kVersion;
  header.dtype = static_cast<uint8_t>(fields.dtype);
  header.flags = static_cast<uint8_t>((fields.checksum ? format::kFlagChecksum : 0) |
                                      (fields.delta ? format::kFlagDelta : 0));
  header.original_bytes = fields.original_bytes;
  header.payload_bytes = fields.payload_bytes;
  header.block_count = static_cast<uint32_t>(format::BlockCount(fields.original_bytes));
  header.block_bytes = format::kBlockBytes;
  header.content_hash = fields.content_hash;
  header.base_hash = fields.base_hash;
  header.header_hash = HeaderHash(header);
  return header;
}

Status FrameView::ParseHeader(const uint8_t* frame, uint64_t available_bytes) {
  frame_ = frame;
  if (available_bytes < sizeof header_) return CINCH_ERROR_FRAME_TRUNCATED;
  std::memcpy(&header_, frame, sizeof header_);
  if (header_.magic != format::kMagic) return CINCH_ERROR_FRAME_MAGIC;
  if (header_.version != format::kVersion) return CINCH_ERROR_FRAME_VERSION;
  if (header_.header_hash != HeaderHash(header_)) return CINCH_ERROR_FRAME_HEADER;
  const bool reserved_is_zero =
      (header_.flags & ~(format::kFlagChecksum | format::kFlagDelta)) == 0 &&
      (delta() || header_.base_hash == 0) &&
      std::all_of(std::begin(header_.reserved), std::end(header_.reserved),
                  [](uint8_t byte) { return byte == 0; });
  if (!reserved_is_zero) return CINCH_ERROR_FRAME_RESERVED;
  if (const Status status = CheckFields(header_); status != CINCH_OK) return status;
  return available_bytes < format::PayloadOffset(header_.block_count) ? CINCH_ERROR_FRAME_TRUNCATED
                                                                      : CINCH_OK;
}

uint64_t FrameView::BlockEnd(uint64_t block) const {
  uint32_t end;
  std::memcpy(&end, frame_ + sizeof header_ + sizeof end * block, sizeof end);
  return uint64_t{end} * format::kPayloadUnitBytes;
}

Status FrameView::ParseWhole(const uint8_t* frame, uint64_t available_bytes) {
  if (const Status status = ParseHeader(frame, available_bytes); status != CINCH_OK) return status;
  if (available_bytes < frame_bytes()) return CINCH_ERROR_FRAME_TRUNCATED;
  if (available_bytes > frame_bytes()) return CINCH_ERROR_FRAME_TRAILING;
  uint64_t previous = 0;
  for (uint64_t block = 0; block < header_.block_count; ++block) {
    const uint64_t end = BlockEnd(block);
    if (end <= previous) return CINCH_ERROR_FRAME_INDEX;
    previous = end;
  }
  if (previous != header_.payload_bytes) return CINCH_ERROR_FRAME_INDEX;
  const uint8_t* index_end = frame + sizeof header_ + uint64_t{4} * header_.block_count;
  return std::all_of(index_end, payload(), [](uint8_t byte) { return byte == 0; })
             ? CINCH_OK
             : CINCH_ERROR_FRAME_RESERVED;
}

}  // namespace cinch::codec
