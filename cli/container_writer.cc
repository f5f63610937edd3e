// SPDX-License-Identifier: Apache-2.0
#include "container_writer.h"

#include <algorithm>
#include <memory>
#include <string>

#include "interrupt.h"

namespace cinch::cli::container {
namespace {

/// Writes the frames of one file, one chunk after another.
class FrameWriter {
 public:
  FrameWriter(cinch_codec* codec, ByteSink* sink, Progress* progress)
      : codec_(codec), sink_(sink), progress_(progress), buffer_(new std::byte[capacity_bytes_]) {}

  /// `base` is empty or has as many bytes.
  Outcome WriteSegment(std::span<const std::byte> bytes, std::span<const std::byte> base,
                       cinch_dtype dtype) {
    while (!bytes.empty()) {
      const size_t size = std::min<size_t>(kChunkBytes, bytes.size());
      const auto chunk_base = base.first(std::min(size, base.size()));
      if (Outcome outcome = WriteChunk(bytes.first(size), chunk_base, dtype); !outcome.ok()) {
        return outcome;
      }
      bytes = bytes.subspan(size);
      base = base.subspan(chunk_base.size());
    }
    return {};
  }

  Trailer trailer() const { return {frame_count_, body_bytes_, hash_.Digest()}; }

 private:
  Outcome WriteChunk(std::span<const std::byte> chunk, std::span<const std::byte> base,
                     cinch_dtype dtype) {
    if (Interrupted()) {
      return InterruptedOutcome();
    }
    uint64_t frame_bytes = 0;
    const Status status =
        CompressChunk(codec_, chunk, base, dtype, {buffer_.get(), capacity_bytes_}, &frame_bytes);
    if (status != CINCH_OK) {
      return FromStatus(status, {});
    }
    hash_.Update(chunk);
    ++frame_count_;
    body_bytes_ += frame_bytes;
    if (Outcome outcome = sink_->Write({buffer_.get(), frame_bytes}); !outcome.ok()) {
      return outcome;
    }
    progress_->Advance(chunk.size());
    return {};
  }

  cinch_codec* codec_;
  ByteSink* sink_;
  Progress* progress_;
  uint64_t capacity_bytes_ = cinch_compress_bound(kChunkBytes);
  std::unique_ptr<std::byte[]> buffer_;
  FileHash hash_;
  uint64_t frame_count_ = 0;
  uint64_t body_bytes_ = 0;
};

}  // namespace

Outcome Write(const WriteInput& input, cinch_codec* codec, ByteSink* sink, Progress* progress,
              WriteResult* result) {
  const tensors::TensorFile& file = input.file;
  std::string directory;
  if (Outcome outcome = EncodeDirectory(input.segments, file.is_safetensors(), &directory);
      !outcome.ok()) {
    return outcome;
  }
  Header header;
  header.original_bytes = file.bytes().size();
  header.directory_bytes = directory.size();
  header.chunk_bytes = kChunkBytes;
  header.directory_hash = ShortHash(std::as_bytes(std::span(directory)));
  if (Outcome outcome = sink->Write(EncodeHeader(header)); !outcome.ok()) {
    return outcome;
  }
  if (Outcome outcome = sink->Write(std::as_bytes(std::span(directory))); !outcome.ok()) {
    return outcome;
  }
  FrameWriter frames(codec, sink, progress);
  for (const Segment& segment : input.segments) {
    const auto bytes = file.bytes().subspan(segment.offset_bytes, segment.size_bytes);
    const auto base = input.base.empty()
                          ? input.base
                          : input.base.subspan(segment.offset_bytes, segment.size_bytes);
    if (Outcome outcome = frames.WriteSegment(bytes, base, segment.dtype); !outcome.ok()) {
      return outcome;
    }
  }
  const Trailer trailer = frames.trailer();
  if (Outcome outcome = sink->Write(EncodeTrailer(trailer)); !outcome.ok()) {
    return outcome;
  }
  *result = {header.original_bytes,
             kHeaderBytes + directory.size() + trailer.body_bytes + kTrailerBytes,
             trailer.frame_count, trailer.digest};
  return sink->Finish();
}

}  // namespace cinch::cli::container
