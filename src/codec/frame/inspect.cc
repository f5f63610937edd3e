// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "base/guarded.h"
#include "base/status.h"
#include "cinch/codec.h"
#include "codec/frame/frame_format.h"

namespace cinch::codec {
namespace {

/// The bitmaps and what is inside.
Status CountSparse(const uint8_t* payload, uint64_t payload_bytes, uint32_t length_bytes,
                   uint32_t dtype, cinch_frame_info* info) {
  format::SparseCounts counts;
  std::memcpy(&counts, payload + format::kSparseCountsOffset, sizeof counts);
  const format::SparseLayout layout = format::MakeSparseLayout(dtype, length_bytes, counts);
  if (!format::IsBlockDtype(dtype) || counts.elements > layout.elements ||
      payload_bytes < layout.inner_offset + format::kPayloadUnitBytes) {
    return CINCH_ERROR_FRAME_BLOCK;
  }
  ++info->sparse_blocks;
  info->coded_bytes += payload_bytes - format::kSparseBitsOffset;
  return CINCH_OK;
}

/// Adds one block to the totals. Only what a decoder would check first is checked here.
Status CountBlock(const FrameView& view, uint64_t block, cinch_frame_info* info) {
  const uint8_t* payload = view.payload() + view.BlockBegin(block);
  const uint64_t payload_bytes = view.BlockEnd(block) - view.BlockBegin(block);
  const uint32_t length_bytes = format::BlockLength(view.header().original_bytes, block);
  format::BlockHeader header;
  std::memcpy(&header, payload, sizeof header);
  switch (static_cast<format::BlockMode>(header.mode)) {
    case format::BlockMode::kStored:
      ++info->stored_blocks;
      info->plain_bytes += length_bytes;
      return CINCH_OK;
    case format::BlockMode::kConstant:
      ++info->constant_blocks;
      return CINCH_OK;
    case format::BlockMode::kSparse:
      return CountSparse(payload, payload_bytes, length_bytes, header.dtype, info);
    case format::BlockMode::kCascade:
      break;
    default:
      return CINCH_ERROR_FRAME_BLOCK;
  }
  const uint32_t byte_planes = format::TraitsOf(header.dtype).residue_bits / 8;
  if (!format::IsBlockDtype(header.dtype) || header.level0_bits > format::kMaxLevel0Bits ||
      (header.zero_planes >> byte_planes) != 0) {
    return CINCH_ERROR_FRAME_BLOCK;
  }
  const format::CascadeLayout layout =
      format::MakeCascadeLayout(header.dtype, length_bytes, header.level0_bits, header.zero_planes);
  if (payload_bytes < format::kResidueOffset) return CINCH_ERROR_FRAME_BLOCK;
  format::EscapeCounts escapes;
  std::memcpy(&escapes, payload + format::kEscapeCountOffset, sizeof escapes);
  const uint32_t coded_bytes = format::CodedBytes(escapes);
  if (layout.elements == 0 || payload_bytes != layout.PayloadBytes(coded_bytes)) {
    return CINCH_ERROR_FRAME_BLOCK;
  }
  ++info->cascade_blocks;
  info->plain_bytes += layout.coded_offset - format::kResidueOffset + layout.tail_bytes;
  info->coded_bytes += coded_bytes;
  return CINCH_OK;
}

}  // namespace
}  // namespace cinch::codec

extern "C" cinch_status cinch_frame_inspect(const void* frame, uint64_t frame_bytes,
                                            cinch_frame_info* info) {
  return cinch::Guarded([&]() -> cinch::Status {
    using cinch::codec::FrameView;
    if ((frame == nullptr && frame_bytes > 0) || info == nullptr ||
        info->struct_size != sizeof *info) {
      return CINCH_ERROR_INVALID_ARGUMENT;
    }
    const auto* bytes = static_cast<const uint8_t*>(frame);
    FrameView view;
    CINCH_RETURN_IF_ERROR(view.ParseHeader(bytes, frame_bytes));
    *info = {};
    info->struct_size = sizeof *info;
    info->format_version = view.header().version;
    info->dtype = static_cast<cinch_dtype>(view.header().dtype);
    info->original_bytes = view.header().original_bytes;
    info->frame_bytes = view.frame_bytes();
    info->block_count = view.header().block_count;
    info->has_checksum = view.checksum() ? 1 : 0;
    info->content_hash = view.header().content_hash;
    info->is_delta = view.delta() ? 1 : 0;
    info->base_hash = view.header().base_hash;
    if (frame_bytes < view.frame_bytes()) return CINCH_OK;
    CINCH_RETURN_IF_ERROR(view.ParseWhole(bytes, frame_bytes));
    for (uint64_t block = 0; block < info->block_count; ++block) {
      CINCH_RETURN_IF_ERROR(cinch::codec::CountBlock(view, block, info));
    }
    return CINCH_OK;
  });
}
