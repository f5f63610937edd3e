// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "bench/gpu/host_output.h"
#include "cinch/cuda.h"

namespace cinch::bench {
namespace {

constexpr unsigned kThreads = 512;

__global__ void __launch_bounds__(kThreads) WriteOnly(uint4* output, uint64_t count) {
  const uint64_t stride = uint64_t{gridDim.x} * kThreads;
  for (uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    const auto word = static_cast<unsigned>(i);
    output[i] = make_uint4(word, word, word, word);
  }
}

__global__ void __launch_bounds__(kThreads)
    ReadOnly(const uint4* input, uint64_t count, unsigned* sink) {
  const uint64_t stride = uint64_t{gridDim.x} * kThreads;
  unsigned sum = 0;
  for (uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    const uint4 words = input[i];
    sum ^= words.x ^ words.y ^ words.z ^ words.w;
  }
  // So that the reads are needed.
  if (sum == 0x12345678) *sink = sum;
}

struct HostFree {
  void operator()(std::byte* memory) const { cudaFreeHost(memory); }
};
using HostMemory = std::unique_ptr<std::byte, HostFree>;

HostMemory AllocateHost(uint64_t size_bytes) {
  void* memory = nullptr;
  Check(cudaHostAlloc(&memory, size_bytes, cudaHostAllocMapped), "cudaHostAlloc");
  return HostMemory(static_cast<std::byte*>(memory));
}

std::byte* OnDevice(const HostMemory& memory) {
  void* address = nullptr;
  Check(cudaHostGetDevicePointer(&address, memory.get(), 0), "cudaHostGetDevicePointer");
  return static_cast<std::byte*>(address);
}

/// One item's compression and decompression, with results where the host sees them.
class OneItem {
 public:
  explicit OneItem(const Problem& problem)
      : results_(AllocateHost(sizeof(cinch_cuda_result))), item_{} {
    const uint64_t scratch_bytes = cinch_cuda_scratch_bytes(1, problem.data.size());
    memory_ = Allocate(scratch_bytes);
    scratch_ = {sizeof scratch_, memory_.get(), scratch_bytes, 1, problem.data.size()};
    cinch_cuda_options_init(&options_);
    Require(cinch_cuda_scratch_init(&scratch_, nullptr) == CINCH_OK, "cinch_cuda_scratch_init");
    item_.dtype = problem.dtype;
  }

  void Compress(const std::byte* input, uint64_t input_bytes, std::byte* output, uint64_t room) {
    Fill(input, input_bytes, output, room);
    Require(cinch_cuda_compress(&options_, &item_, Result(), &scratch_) == CINCH_OK,
            "cinch_cuda_compress");
  }
  void Decompress(const std::byte* input, uint64_t input_bytes, std::byte* output, uint64_t room) {
    Fill(input, input_bytes, output, room);
    Require(cinch_cuda_decompress(&options_, &item_, Result(), &scratch_) == CINCH_OK,
            "cinch_cuda_decompress");
  }

  /// Of the last call; waits for it.
  uint64_t OutputBytes() const {
    Check(cudaDeviceSynchronize(), "synchronize");
    const auto* result = reinterpret_cast<const cinch_cuda_result*>(results_.get());
    Require(result->status == CINCH_OK, cinch_status_text(result->status));
    return result->output_bytes;
  }

 private:
  void Fill(const std::byte* input, uint64_t input_bytes, std::byte* output, uint64_t room) {
    item_.input = input;
    item_.input_bytes = input_bytes;
    item_.output = output;
    item_.output_capacity_bytes = room;
  }
  cinch_cuda_result* Result() const {
    return reinterpret_cast<cinch_cuda_result*>(OnDevice(results_));
  }

  HostMemory results_;
  DeviceMemory memory_;
  cinch_cuda_scratch scratch_{};
  cinch_cuda_options options_{};
  cinch_cuda_item item_;
};

}  // namespace

HostOutput MeasureHostOutput(const Problem& problem) {
  const uint64_t bytes = problem.data.size();
  const uint64_t room = cinch_compress_bound(bytes);
  const HostMemory frame = AllocateHost(room);
  const DeviceMemory input = Allocate(bytes);
  const DeviceMemory output = Allocate(bytes);
  const DeviceMemory device_frame = Allocate(room);
  Check(cudaMemcpy(input.get(), problem.data.data(), bytes, cudaMemcpyHostToDevice), "upload");
  OneItem codec(problem);

  HostOutput result;
  codec.Compress(input.get(), bytes, device_frame.get(), room);
  result.compressed_bytes = codec.OutputBytes();
  result.compress_seconds = MedianSeconds(
      1, [&](uint32_t) { codec.Compress(input.get(), bytes, OnDevice(frame), room); });
  Require(codec.OutputBytes() == result.compressed_bytes, "the frame's size differs");
  std::vector<std::byte> expected(result.compressed_bytes);
  Check(cudaMemcpy(expected.data(), device_frame.get(), expected.size(), cudaMemcpyDeviceToHost),
        "download");
  Require(std::memcmp(expected.data(), frame.get(), expected.size()) == 0, "the frame differs");
  result.decompress_seconds = MedianSeconds(1, [&](uint32_t) {
    codec.Decompress(OnDevice(frame), result.compressed_bytes, output.get(), bytes);
  });
  Require(codec.OutputBytes() == bytes, "the decompressed size differs");

  const uint64_t words = result.compressed_bytes / sizeof(uint4);
  const DeviceMemory sink = Allocate(sizeof(unsigned));
  // As few as keep the link busy and as many as fit: the faster counts.
  result.write_seconds = result.read_seconds = 1e9;
  for (const unsigned blocks : {64U, 264U, 528U}) {
    result.write_seconds = std::min(result.write_seconds, MedianSeconds(1, [&](uint32_t) {
                                      WriteOnly<<<blocks, kThreads>>>(
                                          reinterpret_cast<uint4*>(OnDevice(frame)), words);
                                    }));
    result.read_seconds =
        std::min(result.read_seconds, MedianSeconds(1, [&](uint32_t) {
                   ReadOnly<<<blocks, kThreads>>>(reinterpret_cast<const uint4*>(OnDevice(frame)),
                                                  words, reinterpret_cast<unsigned*>(sink.get()));
                 }));
  }
  Check(cudaGetLastError(), "launch");
  return result;
}

}  // namespace cinch::bench
