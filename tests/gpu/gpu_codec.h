// SPDX-License-Identifier: Apache-2.0
/// @file gpu_codec.h
/// What GPU tests need: device memory that is freed, and batches that go to the device and back in
/// one piece.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "cinch/codec.h"
#include "cinch/cuda.h"
#include "support/cpu_frames.h"

namespace cinch::test {

#define CINCH_CUDA_OK(call) ASSERT_EQ(call, cudaSuccess)

/// Memory of the device, or mapped pinned memory of the host.
class Memory {
 public:
  enum class Kind { kDevice, kMapped };
  explicit Memory(size_t bytes, Kind kind = Kind::kDevice) : bytes_(bytes), kind_(kind) {
    const size_t room = bytes == 0 ? 1 : bytes;
    const cudaError_t error = kind == Kind::kDevice
                                  ? cudaMalloc(&memory_, room)
                                  : cudaHostAlloc(&memory_, room, cudaHostAllocMapped);
    if (error != cudaSuccess) throw std::bad_alloc();
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  Memory(Memory&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_), kind_(other.kind_) {}
  ~Memory() {
    if (memory_ == nullptr) return;
    kind_ == Kind::kDevice ? cudaFree(memory_) : cudaFreeHost(memory_);
  }
  uint8_t* data() const { return static_cast<uint8_t*>(memory_); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_);
  }
  size_t size() const { return bytes_; }
  /// The bytes are there on return, for any stream: a copy from pageable memory alone is not.
  void Upload(const void* from, size_t bytes) {
    EXPECT_EQ(cudaMemcpy(memory_, from, bytes, cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  }
  Bytes Download() const {
    Bytes to(bytes_);
    EXPECT_EQ(cudaMemcpy(to.data(), memory_, bytes_, cudaMemcpyDeviceToHost), cudaSuccess);
    return to;
  }

 private:
  void* memory_ = nullptr;
  size_t bytes_;
  Kind kind_;
};

/// A stream of its own.
class Stream {
 public:
  Stream() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { cudaStreamDestroy(stream_); }
  operator cudaStream_t() const { return stream_; }  // NOLINT(google-explicit-constructor)
  void Wait() const { ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Prepared scratch memory.
class ScratchMemory {
 public:
  ScratchMemory(uint64_t max_items, uint64_t max_input_bytes)
      : memory_(cinch_cuda_scratch_bytes(max_items, max_input_bytes)),
        scratch_{sizeof scratch_, memory_.data(), memory_.size(), max_items, max_input_bytes} {
    // What was in the memory before must not matter.
    EXPECT_EQ(cudaMemset(memory_.data(), 0xA5, memory_.size()), cudaSuccess);
    EXPECT_EQ(cinch_cuda_scratch_init(&scratch_, nullptr), CINCH_OK);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  const cinch_cuda_scratch* get() const { return &scratch_; }

 private:
  Memory memory_;
  cinch_cuda_scratch scratch_;
};

/// One item on the host.
struct HostItem {
  Bytes input;
  cinch_dtype dtype = CINCH_DTYPE_BYTES;
  uint64_t capacity_bytes = 0;
  uint32_t input_offset = 0;  ///< From an address that 256 divides.
  uint32_t output_offset = 0;
};

struct HostResult {
  Status status;
  uint64_t output_bytes;
  Bytes output;  ///< All of its capacity.
};

struct BatchOptions {
  bool compress = true;
  bool checksum = true;
  bool items_on_host = false;
  uint32_t max_ctas = 0;
};

inline constexpr size_t kGuardBytes = 64;
inline constexpr uint8_t kGuardByte = 0xC3;

/// Runs a batch on the device. Every output lies between guards that must survive.
class BatchRunner {
 public:
  explicit BatchRunner(uint64_t max_items, uint64_t max_input_bytes)
      : scratch_(max_items, max_input_bytes) {}

  std::vector<HostResult> Run(const std::vector<HostItem>& items, const BatchOptions& options) {
    std::vector<size_t> input_at;
    std::vector<size_t> output_at;
    size_t input_bytes = 0;
    size_t output_bytes = 0;
    for (const HostItem& item : items) {
      input_at.push_back(Place(item.input.size(), item.input_offset, 0, &input_bytes));
      output_at.push_back(
          Place(item.capacity_bytes, item.output_offset, kGuardBytes, &output_bytes));
    }
    Bytes image(input_bytes, 0x5A);
    for (size_t i = 0; i < items.size(); ++i) {
      std::copy(items[i].input.begin(), items[i].input.end(),
                image.begin() + static_cast<long>(input_at[i]));
    }
    Memory inputs(input_bytes);
    Memory outputs(output_bytes);
    inputs.Upload(image.data(), image.size());
    EXPECT_EQ(cudaMemset(outputs.data(), kGuardByte, output_bytes), cudaSuccess);
    std::vector<cinch_cuda_item> device_items;
    for (size_t i = 0; i < items.size(); ++i) {
      device_items.push_back({inputs.data() + input_at[i], items[i].input.size(),
                              outputs.data() + output_at[i], items[i].capacity_bytes,
                              items[i].dtype, 0});
    }
    const auto results = Enqueue(device_items, options);
    return Collect(items, output_at, outputs.Download(), results);
  }

 private:
  static size_t Place(size_t bytes, size_t offset, size_t guard, size_t* end) {
    const size_t at = (*end + guard + 255) / 256 * 256 + offset;
    *end = at + bytes + guard;
    return at;
  }

  std::vector<cinch_cuda_result> Enqueue(const std::vector<cinch_cuda_item>& items,
                                         const BatchOptions& options) {
    Memory device_items(items.size() * sizeof(cinch_cuda_item));
    device_items.Upload(items.data(), device_items.size());
    Memory results(items.size() * sizeof(cinch_cuda_result));
    EXPECT_EQ(cudaMemset(results.data(), 0xFF, results.size()), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const Stream stream;
    cinch_cuda_options cuda_options;
    cinch_cuda_options_init(&cuda_options);
    cuda_options.stream = stream;
    cuda_options.checksum = options.checksum ? 1 : 0;
    cuda_options.max_ctas = options.max_ctas;
    cuda_options.items_on_host = options.items_on_host ? 1 : 0;
    const auto* at = options.items_on_host ? items.data() : device_items.as<cinch_cuda_item>();
    const auto run = options.compress ? cinch_cuda_compress_batch : cinch_cuda_decompress_batch;
    EXPECT_EQ(run(&cuda_options, at, items.size(), results.as<cinch_cuda_result>(), scratch_.get()),
              CINCH_OK);
    stream.Wait();
    std::vector<cinch_cuda_result> host_results(items.size());
    const Bytes bytes = results.Download();
    if (!bytes.empty()) std::memcpy(host_results.data(), bytes.data(), bytes.size());
    return host_results;
  }

  static std::vector<HostResult> Collect(const std::vector<HostItem>& items,
                                         const std::vector<size_t>& output_at, const Bytes& outputs,
                                         const std::vector<cinch_cuda_result>& results) {
    std::vector<HostResult> collected;
    for (size_t i = 0; i < items.size(); ++i) {
      const uint8_t* output = outputs.data() + output_at[i];
      const size_t capacity = items[i].capacity_bytes;
      for (size_t k = 1; k <= kGuardBytes; ++k) {
        EXPECT_EQ(*(output - k), kGuardByte) << "item " << i << " wrote before its output";
        EXPECT_EQ(output[capacity + k - 1], kGuardByte) << "item " << i << " wrote behind";
        if (testing::Test::HasFailure()) break;
      }
      collected.push_back(
          {results[i].status, results[i].output_bytes, Bytes(output, output + capacity)});
    }
    return collected;
  }

  ScratchMemory scratch_;
};

}  // namespace cinch::test
