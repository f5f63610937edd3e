// SPDX-License-Identifier: Apache-2.0
#include "segments.h"

#include <algorithm>
#include <utility>

namespace cinch::cli {

std::vector<Segment> SegmentsOf(const tensors::TensorFile& file, cinch_dtype override_dtype) {
  std::vector<Segment> segments;
  uint64_t offset_bytes = 0;
  // Tensors are in the order of their offsets and without gaps; without tensors all is header.
  uint64_t data_offset_bytes = file.is_safetensors() ? file.bytes().size() : 0;
  if (!file.tensors().empty()) {
    data_offset_bytes = file.tensors().front().offset_bytes;
  }
  if (data_offset_bytes > 0) {
    Segment head;
    head.name = kHeadSegmentName;
    head.size_bytes = data_offset_bytes;
    head.is_tensor = false;
    segments.push_back(std::move(head));
    offset_bytes = data_offset_bytes;
  }
  for (const tensors::TensorInfo& tensor : file.tensors()) {
    Segment segment;
    segment.name = tensor.name;
    segment.shape = tensor.shape;
    segment.dtype = override_dtype == CINCH_DTYPE_AUTO ? tensor.dtype : override_dtype;
    if (file.is_safetensors()) {
      segment.file_dtype = tensors::FileDtypeName(tensor.file_dtype);
    }
    segment.offset_bytes = offset_bytes;
    segment.size_bytes = tensor.size_bytes;
    offset_bytes += tensor.size_bytes;
    segments.push_back(std::move(segment));
  }
  return segments;
}

namespace {

/// Tensors below a block's size travel with their neighbours, whatever those are.
constexpr uint64_t kSmallBytes = 32768;

/// Whether a segment may follow in the same chunk. Its elements must stay aligned: the codec finds
/// no exponents in elements that begin half-way.
bool MayJoin(const Chunk& chunk, const Segment& segment, uint64_t chunk_bytes) {
  const bool alike = chunk.dtype == segment.dtype || segment.size_bytes < kSmallBytes;
  return alike && chunk.size_bytes + segment.size_bytes <= chunk_bytes &&
         chunk.size_bytes % cinch_dtype_size(segment.dtype) == 0;
}

void Join(const Segment& segment, Chunk* chunk) {
  if (chunk->dtype != segment.dtype && chunk->size_bytes < kSmallBytes) {
    chunk->dtype = CINCH_DTYPE_AUTO;
  }
  chunk->size_bytes += segment.size_bytes;
}

}  // namespace

std::vector<Chunk> ChunksOf(const std::vector<Segment>& segments, uint64_t chunk_bytes) {
  std::vector<Chunk> chunks;
  for (size_t index = 0; index < segments.size(); ++index) {
    const Segment& segment = segments[index];
    if (segment.size_bytes == 0) {
      continue;
    }
    if (!chunks.empty() && MayJoin(chunks.back(), segment, chunk_bytes)) {
      Join(segment, &chunks.back());
      continue;
    }
    for (uint64_t done_bytes = 0; done_bytes < segment.size_bytes; done_bytes += chunk_bytes) {
      const uint64_t size_bytes = std::min(chunk_bytes, segment.size_bytes - done_bytes);
      chunks.push_back({segment.offset_bytes + done_bytes, size_bytes, segment.dtype, index});
    }
  }
  return chunks;
}

}  // namespace cinch::cli
