// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

#include "base/status.h"
#include "codec/frame/frame_codec.h"
#include "codec/frame/frame_format.h"
#include "codec/frame/ordered_output.h"
#include "codec/frame/stream_copy.h"

namespace cinch::codec {
namespace {

/// Frames of larger inputs are in no cache when they are complete.
constexpr uint64_t kStreamedInputBytes = uint64_t{64} << 20;

BlockInput BlockOf(const FrameInput& input, uint64_t block) {
  const uint64_t begin = block * format::kBlockBytes;
  return {input.bytes + begin, format::BlockLength(input.size_bytes, block),
          input.dtype,         block,
          input.checksum,      input.base == nullptr ? nullptr : input.base + begin};
}

/// Writes index entry `block`: the end of its payload, `end_bytes` from the payload's start.
void WriteIndexEntry(uint8_t* frame, uint64_t block, uint64_t end_bytes) {
  const auto end = static_cast<uint32_t>(end_bytes / format::kPayloadUnitBytes);
  std::memcpy(frame + sizeof(format::FrameHeader) + sizeof end * block, &end, sizeof end);
}

void WriteHeader(const FrameInput& input, uint64_t payload_bytes, uint64_t content_hash,
                 FrameOutput* output) {
  const format::FrameHeader header =
      MakeHeader({input.dtype, input.checksum, input.base != nullptr, input.size_bytes,
                  payload_bytes, content_hash, input.base_hash});
  std::memcpy(output->bytes, &header, sizeof header);
  const uint64_t index_end = sizeof header + uint64_t{4} * header.block_count;
  const uint64_t payload_offset = format::PayloadOffset(header.block_count);
  std::fill(output->bytes + index_end, output->bytes + payload_offset, uint8_t{0});
  output->size_bytes = payload_offset + payload_bytes;
}

}  // namespace

std::unique_ptr<FrameCodec> FrameCodec::Create(const BlockCodec& block_codec, uint32_t threads) {
  std::unique_ptr<FrameCodec> codec(new (std::nothrow) FrameCodec(block_codec, threads));
  if (codec == nullptr) return nullptr;
  codec->scratch_.reset(new (std::nothrow) uint8_t[codec->pool_.thread_count() * kScratchBytes]);
  return codec->scratch_ == nullptr ? nullptr : std::move(codec);
}

Status FrameCodec::EncodeBlocksInOrder(const FrameInput& input, FrameOutput* output,
                                       uint32_t worker) {
  const uint64_t blocks = format::BlockCount(input.size_bytes);
  uint8_t* const payload = output->bytes + format::PayloadOffset(blocks);
  const uint64_t capacity_bytes = output->capacity_bytes - format::PayloadOffset(blocks);
  uint64_t at = 0;
  uint64_t content_hash = 0;
  for (uint64_t block = 0; block < blocks; ++block) {
    // Near the output's end a block goes through scratch memory: an encoder may write past its
    // payload.
    const bool direct = capacity_bytes - at >= kEncodeCapacityBytes;
    uint8_t* const place = direct ? payload + at : ScratchOf(worker);
    const EncodedBlock encoded = block_codec_.Encode(BlockOf(input, block), place);
    if (!direct) {
      if (capacity_bytes - at < encoded.payload_bytes) return CINCH_ERROR_DESTINATION_TOO_SMALL;
      std::memcpy(payload + at, place, encoded.payload_bytes);
    }
    at += encoded.payload_bytes;
    content_hash += encoded.hash;
    WriteIndexEntry(output->bytes, block, at);
  }
  WriteHeader(input, at, content_hash, output);
  return CINCH_OK;
}

Status FrameCodec::EncodeBlocksInParallel(const FrameInput& input, FrameOutput* output) {
  const uint64_t blocks = format::BlockCount(input.size_bytes);
  const uint64_t batches = format::CeilDivide(blocks, kBatchBlocks);
  uint8_t* const payload = output->bytes + format::PayloadOffset(blocks);
  const uint64_t capacity_bytes = output->capacity_bytes - format::PayloadOffset(blocks);
  const bool streamed = input.size_bytes >= kStreamedInputBytes;
  OrderedOutput placed;
  std::atomic<uint64_t> next_batch{0};
  std::atomic<uint64_t> content_hash{0};
  std::atomic<bool> fits{true};

  const auto encode_batches = [&](size_t, uint32_t worker) noexcept {
    uint8_t* const scratch = ScratchOf(worker);
    for (uint64_t batch; (batch = next_batch.fetch_add(1)) < batches;) {
      const uint64_t begin = batch * kBatchBlocks;
      const uint64_t end = std::min(begin + kBatchBlocks, blocks);
      uint64_t ends[kBatchBlocks];
      uint64_t size_bytes = 0;
      for (uint64_t block = begin; block < end; ++block) {
        const EncodedBlock encoded =
            block_codec_.Encode(BlockOf(input, block), scratch + size_bytes);
        content_hash.fetch_add(encoded.hash, std::memory_order_relaxed);
        size_bytes += encoded.payload_bytes;
        ends[block - begin] = size_bytes;
      }
      const uint64_t offset = placed.Place(batch, size_bytes);
      if (offset + size_bytes > capacity_bytes) {
        fits.store(false, std::memory_order_relaxed);
        continue;
      }
      if (streamed) {
        StreamCopy(payload + offset, scratch, size_bytes);
      } else {
        std::memcpy(payload + offset, scratch, size_bytes);
      }
      for (uint64_t block = begin; block < end; ++block) {
        WriteIndexEntry(output->bytes, block, offset + ends[block - begin]);
      }
    }
  };
  pool_.ParallelFor(pool_.thread_count(), encode_batches);
  if (!fits) return CINCH_ERROR_DESTINATION_TOO_SMALL;
  WriteHeader(input, placed.size_bytes(), content_hash, output);
  return CINCH_OK;
}

uint64_t FrameCodec::HashBlocks(const uint8_t* bytes, uint64_t size_bytes, uint64_t begin,
                                uint64_t end) const {
  uint64_t hash = 0;
  for (uint64_t block = begin; block < end; ++block) {
    hash += block_codec_.Hash(bytes + block * format::kBlockBytes,
                              format::BlockLength(size_bytes, block), block);
  }
  return hash;
}

uint64_t FrameCodec::ContentHashAlone(const uint8_t* bytes, uint64_t size_bytes) const {
  return HashBlocks(bytes, size_bytes, 0, format::BlockCount(size_bytes));
}

uint64_t FrameCodec::ContentHash(const uint8_t* bytes, uint64_t size_bytes) {
  const uint64_t blocks = format::BlockCount(size_bytes);
  std::atomic<uint64_t> content_hash{0};
  pool_.ParallelFor(format::CeilDivide(blocks, kBatchBlocks), [&](size_t batch) noexcept {
    const uint64_t begin = batch * kBatchBlocks;
    const uint64_t end = std::min(blocks, begin + kBatchBlocks);
    content_hash.fetch_add(HashBlocks(bytes, size_bytes, begin, end), std::memory_order_relaxed);
  });
  return content_hash;
}

Status FrameCodec::EncodeAlone(const FrameInput& input, FrameOutput* output, uint32_t worker) {
  if (input.size_bytes > CINCH_MAX_FRAME_INPUT_BYTES) return CINCH_ERROR_TOO_LARGE;
  if (output->capacity_bytes < format::PayloadOffset(format::BlockCount(input.size_bytes))) {
    return CINCH_ERROR_DESTINATION_TOO_SMALL;
  }
  return EncodeBlocksInOrder(input, output, worker);
}

Status FrameCodec::Encode(const FrameInput& input, FrameOutput* output) {
  const uint64_t blocks = format::BlockCount(input.size_bytes);
  if (pool_.thread_count() == 1 || blocks < kMinParallelBlocks ||
      input.size_bytes > CINCH_MAX_FRAME_INPUT_BYTES ||
      output->capacity_bytes < format::PayloadOffset(blocks)) {
    return EncodeAlone(input, output, 0);
  }
  return EncodeBlocksInParallel(input, output);
}

}  // namespace cinch::codec
