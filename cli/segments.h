// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cinch/codec.h"
#include "tensors/tensor_file.h"

namespace cinch::cli {

/// A stretch of a file that is coded alike. The segments of a file follow one another without gaps
/// and cover all of it, its header included: whoever puts them together has the file again.
struct Segment {
  std::string name;
  /// What the file calls the elements, e.g. "BF16"; empty when it does not say.
  std::string file_dtype;
  std::vector<uint64_t> shape;
  cinch_dtype dtype = CINCH_DTYPE_BYTES;
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
  /// A tensor, as opposed to the file's own header.
  bool is_tensor = true;
};

/// What the segment of a safetensors file's header is called; no tensor can have an empty name
/// here and this kind.
inline constexpr const char* kHeadSegmentName = "(header)";

/// The segments of a file. `override_dtype` other than auto replaces the dtype of every tensor.
std::vector<Segment> SegmentsOf(const tensors::TensorFile& file, cinch_dtype override_dtype);

/// Original bytes that a frame or a message covers at most. Large enough that its fixed costs
/// vanish, small enough that a few of them fit any machine.
inline constexpr uint64_t kChunkBytes = uint64_t{16} << 20;

/// A range of a file that travels as one.
struct Chunk {
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
  cinch_dtype dtype = CINCH_DTYPE_BYTES;
  /// The (first) segment that it is from.
  size_t segment = 0;
};

/// Cuts segments into chunks of at most `chunk_bytes`. Neighbours of one dtype, and small
/// ones of any, share a chunk: a model has thousands of tensors of a few bytes.
std::vector<Chunk> ChunksOf(const std::vector<Segment>& segments, uint64_t chunk_bytes);

}  // namespace cinch::cli
