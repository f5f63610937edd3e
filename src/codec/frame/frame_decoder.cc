// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <mutex>

#include "base/status.h"
#include "codec/frame/frame_codec.h"
#include "codec/frame/frame_format.h"

namespace cinch::codec {
namespace {

/// The status of the first bad block in block order, whichever thread meets it.
class FirstError {
 public:
  void Report(uint64_t block, Status status) {
    const std::lock_guard lock(mutex_);
    if (block >= block_.load(std::memory_order_relaxed)) return;
    block_.store(block, std::memory_order_relaxed);
    status_ = status;
  }
  /// Blocks after a bad one need not be decoded.
  bool IsBefore(uint64_t block) const { return block_.load(std::memory_order_relaxed) < block; }
  Status status() const { return status_; }

 private:
  std::mutex mutex_;
  std::atomic<uint64_t> block_{~uint64_t{0}};
  Status status_ = CINCH_OK;
};

/// `base` has the frame's whole base, or is null.
Status DecodeOne(const BlockCodec& codec, const FrameView& view, uint64_t block,
                 const uint8_t* base, uint8_t* output, uint64_t* hash) {
  const uint64_t begin = view.BlockBegin(block);
  const uint64_t payload_bytes = view.BlockEnd(block) - begin;
  // Also keeps the size in 32 bits: an honest block is never larger.
  if (payload_bytes > format::kMaxBlockPayloadBytes) return CINCH_ERROR_FRAME_BLOCK;
  const BlockPayload payload{view.payload() + begin,
                             static_cast<uint32_t>(payload_bytes),
                             format::BlockLength(view.header().original_bytes, block),
                             block,
                             view.checksum(),
                             base == nullptr ? nullptr : base + block * format::kBlockBytes};
  return codec.Decode(payload, output + block * format::kBlockBytes, hash);
}

/// Section 2.2. `used` gets the base to decode by: null for a frame that needs none.
Status CheckBase(const format::FrameHeader& header, const FrameBase& base, const uint8_t** used) {
  *used = nullptr;
  if ((header.flags & format::kFlagDelta) == 0) return CINCH_OK;
  if (base.bytes == nullptr && base.size_bytes == 0 && header.original_bytes != 0) {
    return CINCH_ERROR_FRAME_BASE_MISSING;
  }
  if (base.size_bytes != header.original_bytes || base.content_hash != header.base_hash) {
    return CINCH_ERROR_FRAME_BASE_MISMATCH;
  }
  *used = base.bytes;
  return CINCH_OK;
}

Status Begin(const uint8_t* frame, uint64_t frame_bytes, const FrameBase& base, FrameOutput* output,
             FrameView* view, const uint8_t** used_base) {
  CINCH_RETURN_IF_ERROR(view->ParseWhole(frame, frame_bytes));
  if (view->header().original_bytes > output->capacity_bytes) {
    return CINCH_ERROR_DESTINATION_TOO_SMALL;
  }
  return CheckBase(view->header(), base, used_base);
}

Status End(const FrameView& view, uint64_t content_hash, FrameOutput* output) {
  if (content_hash != view.header().content_hash) return CINCH_ERROR_FRAME_CHECKSUM;
  output->size_bytes = view.header().original_bytes;
  return CINCH_OK;
}

}  // namespace

Status FrameCodec::DecodeAlone(const uint8_t* frame, uint64_t frame_bytes, const FrameBase& base,
                               FrameOutput* output) {
  FrameView view;
  const uint8_t* base_bytes = nullptr;
  CINCH_RETURN_IF_ERROR(Begin(frame, frame_bytes, base, output, &view, &base_bytes));
  uint64_t content_hash = 0;
  for (uint64_t block = 0; block < view.header().block_count; ++block) {
    uint64_t hash = 0;
    CINCH_RETURN_IF_ERROR(DecodeOne(block_codec_, view, block, base_bytes, output->bytes, &hash));
    content_hash += hash;
  }
  return End(view, content_hash, output);
}

Status FrameCodec::Decode(const uint8_t* frame, uint64_t frame_bytes, const FrameBase& base,
                          FrameOutput* output) {
  FrameView view;
  const uint8_t* base_bytes = nullptr;
  CINCH_RETURN_IF_ERROR(Begin(frame, frame_bytes, base, output, &view, &base_bytes));
  const uint64_t blocks = view.header().block_count;
  if (pool_.thread_count() == 1 || blocks < kMinParallelBlocks) {
    return DecodeAlone(frame, frame_bytes, base, output);
  }
  std::atomic<uint64_t> content_hash{0};
  FirstError error;
  pool_.ParallelFor(format::CeilDivide(blocks, kBatchBlocks), [&](size_t batch) noexcept {
    uint64_t batch_hash = 0;
    for (uint64_t block = batch * kBatchBlocks; block < (batch + 1) * kBatchBlocks; ++block) {
      if (block >= blocks || error.IsBefore(block)) break;
      uint64_t hash = 0;
      const Status status = DecodeOne(block_codec_, view, block, base_bytes, output->bytes, &hash);
      if (status != CINCH_OK) error.Report(block, status);
      batch_hash += hash;
    }
    content_hash.fetch_add(batch_hash, std::memory_order_relaxed);
  });
  CINCH_RETURN_IF_ERROR(error.status());
  return End(view, content_hash, output);
}

}  // namespace cinch::codec
