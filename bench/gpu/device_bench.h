// SPDX-License-Identifier: Apache-2.0
// What the codecs of the GPU comparison have in common: problems, memory and clocks. Errors end the
// program: this is a bench.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cinch/codec.h"

namespace cinch::bench {

inline void Check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    std::exit(1);
  }
}

inline void Require(bool holds, const char* what) {
  if (!holds) {
    std::fprintf(stderr, "%s\n", what);
    std::exit(1);
  }
}

struct DeviceFree {
  void operator()(std::byte* memory) const { cudaFree(memory); }
};
using DeviceMemory = std::unique_ptr<std::byte, DeviceFree>;

inline DeviceMemory Allocate(uint64_t size_bytes) {
  void* memory = nullptr;
  Check(cudaMalloc(&memory, std::max<uint64_t>(size_bytes, 256)), "cudaMalloc");
  return DeviceMemory(static_cast<std::byte*>(memory));
}

template <typename Value>
DeviceMemory Upload(const std::vector<Value>& values) {
  DeviceMemory memory = Allocate(values.size() * sizeof(Value));
  Check(cudaMemcpy(memory.get(), values.data(), values.size() * sizeof(Value),
                   cudaMemcpyHostToDevice),
        "upload");
  return memory;
}

/// What a codec is measured with.
struct Problem {
  cinch_dtype dtype = CINCH_DTYPE_BF16;
  std::span<const std::byte> data;
  /// Size of the batch's items; data.size() for one item.
  uint64_t item_bytes = 0;

  uint64_t item_count() const { return (data.size() + item_bytes - 1) / item_bytes; }
  uint64_t item_size_bytes(uint64_t item) const {
    return std::min<uint64_t>(item_bytes, data.size() - item * item_bytes);
  }
  /// So many copies of the data that none is found in a cache: 256 MiB and more in all.
  uint32_t copies() const {
    constexpr uint64_t kColdBytes = uint64_t{256} << 20;
    return static_cast<uint32_t>(
        std::clamp<uint64_t>((kColdBytes + data.size() - 1) / data.size(), 1, 16));
  }
};

struct Speed {
  uint64_t compressed_bytes = 0;
  double compress_seconds = 0;
  double decompress_seconds = 0;
};

/// A codec under test. `copy` says which copy of the problem's data is meant.
class DeviceCodec {
 public:
  virtual ~DeviceCodec() = default;
  virtual void Compress(uint32_t copy) = 0;
  /// What Compress() has made of that copy.
  virtual void Decompress(uint32_t copy) = 0;
  /// Of all items, after Compress() of that copy; waits for the device.
  virtual uint64_t CompressedBytes(uint32_t copy) = 0;
  /// The decompressed data of that copy, in device memory.
  virtual const std::byte* Output(uint32_t copy) const = 0;
};

/// The median of event-timed calls of `run(i)`, i going around `copies`.
template <typename Run>
double MedianSeconds(uint32_t copies, Run run) {
  constexpr uint32_t kWarmUps = 3;
  constexpr uint32_t kRepeats = 15;
  cudaEvent_t events[2] = {};
  for (cudaEvent_t& event : events) {
    Check(cudaEventCreate(&event), "cudaEventCreate");
  }
  std::vector<float> milliseconds;
  for (uint32_t i = 0; i < kWarmUps + kRepeats; ++i) {
    Check(cudaEventRecord(events[0]), "record");
    run(i % copies);
    Check(cudaEventRecord(events[1]), "record");
    Check(cudaEventSynchronize(events[1]), "synchronize");
    float elapsed = 0;
    Check(cudaEventElapsedTime(&elapsed, events[0], events[1]), "elapsed");
    if (i >= kWarmUps) milliseconds.push_back(elapsed);
  }
  for (const cudaEvent_t event : events) {
    cudaEventDestroy(event);
  }
  std::nth_element(milliseconds.begin(), milliseconds.begin() + kRepeats / 2, milliseconds.end());
  return 1e-3 * static_cast<double>(milliseconds[kRepeats / 2]);
}

/// Compresses and decompresses every copy, compares the first with the data, and takes times.
Speed MeasureCodec(const Problem& problem, DeviceCodec* codec);

}  // namespace cinch::bench
