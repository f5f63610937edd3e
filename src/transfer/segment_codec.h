// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/status.h"
#include "cinch/codec.h"

namespace cinch::transfer {

/// What turns segments into frames and back, for one thread. Tests replace it.
class SegmentCodec {
 public:
  SegmentCodec() = default;
  SegmentCodec(const SegmentCodec&) = delete;
  SegmentCodec& operator=(const SegmentCodec&) = delete;
  virtual ~SegmentCodec() = default;

  [[nodiscard]] virtual Status Encode(cinch_dtype dtype, bool checksum, const void* input,
                                      uint64_t input_bytes, void* output, uint64_t capacity_bytes,
                                      uint64_t& output_bytes) = 0;
  /// The frame is untrusted.
  [[nodiscard]] virtual Status Decode(const void* frame, uint64_t frame_bytes, void* output,
                                      uint64_t capacity_bytes, uint64_t& output_bytes) = 0;
};

using SegmentCodecFactory = std::function<Status(std::unique_ptr<SegmentCodec>& codec)>;

/// The codec of cinch/codec.h on the CPU, one thread.
[[nodiscard]] Status CreateCpuSegmentCodec(std::unique_ptr<SegmentCodec>& codec);

}  // namespace cinch::transfer
