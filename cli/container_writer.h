// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
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

/// What is written.
struct WriteInput {
  const tensors::TensorFile& file;
  const std::vector<Segment>& segments;  ///< What `file` is cut into.
  std::span<const std::byte> base = {};  ///< Not empty: relative to as many bytes as the file has.
};

/// Writes a container to `sink`, and finishes the sink. Memory: one chunk.
Outcome Write(const WriteInput& input, cinch_codec* codec, ByteSink* sink, Progress* progress,
              WriteResult* result);

}  // namespace cinch::cli::container
