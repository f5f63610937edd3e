// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "byte_sink.h"
#include "container_format.h"
#include "handles.h"
#include "progress.h"
#include "tensors/tensor_file.h"

namespace cinch::cli::container {

/// What became of a file.
struct WriteResult {
  uint64_t original_bytes = 0;
  uint64_t container_bytes = 0;
  uint64_t frame_count = 0;
  FileDigest digest{};
};

/// Writes `file`, cut into `segments`, as a container to `sink`, and finishes the sink. Memory: one
/// chunk.
Outcome Write(const tensors::TensorFile& file, const std::vector<Segment>& segments,
              cinch_codec* codec, ByteSink* sink, Progress* progress, WriteResult* result);

}  // namespace cinch::cli::container
