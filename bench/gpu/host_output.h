// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/gpu/device_bench.h"

namespace cinch::bench {

/// Compression into mapped pinned host memory, and the plain kernels it is held against.
struct HostOutput {
  uint64_t compressed_bytes = 0;
  double compress_seconds = 0;
  /// A kernel that only writes as many bytes to the same memory.
  double write_seconds = 0;
  /// Decompression of that frame from there, and a kernel that only reads as many bytes.
  double decompress_seconds = 0;
  double read_seconds = 0;
};

/// One item of the problem's data; the frame is compared with the one in device memory.
HostOutput MeasureHostOutput(const Problem& problem);

}  // namespace cinch::bench
