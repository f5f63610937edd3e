// SPDX-License-Identifier: Apache-2.0
// The other process of the GPU transfer tests: the same program, started with --peer and an
// address. It does what messages with kCommandTag say and answers with kAnswerTag.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "gpu/memory_kinds.h"
#include "support/gpu_data.h"
#include "transfer/engine_pair.h"

namespace cinch::gpu_test {

using transfer_test::EndpointHandle;
using transfer_test::EngineHandle;
using transfer_test::OperationHandle;

inline constexpr uint64_t kCommandTag = 1;
inline constexpr uint64_t kAnswerTag = 2;
inline constexpr uint64_t kDataTag = 3;

enum class Verb : uint32_t {
  kReceive,
  kSend,
  kRegion,
  kHashRegion,
  kSpoilAll,
  kReceiveMany,
  kStop
};

struct Command {
  Verb verb{};
  MemoryKind kind{};
  uint64_t bytes = 0;
  uint64_t seed = 0;
  uint64_t count = 0;
};
struct Answer {
  cinch_status status{};
  uint64_t hash = 0;
  cinch_remote_region region{};
};

inline cinch_transfer_options Tagged(uint64_t tag, cudaStream_t stream = nullptr) {
  cinch_transfer_options options = transfer_test::TransferOptions(CINCH_POLICY_COMPRESSED);
  options.tag = tag;
  options.tag_mask = ~uint64_t{0};
  options.stream = stream;
  return options;
}

/// Fills and hashes memory of any kind, with kernels, on a stream of its own.
class Hasher {
 public:
  Hasher() {
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&sum_), sizeof(*sum_)), cudaSuccess);
  }
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void Fill(void* data, uint64_t bytes, uint64_t seed) {
    if (!OnDevice(data)) {
      const Memory copy(MemoryKind::kDevice, bytes);
      EXPECT_EQ(bench::FillNormalBf16(copy.data(), bytes, seed, stream), cudaSuccess);
      EXPECT_EQ(cudaMemcpyAsync(data, copy.data(), bytes, cudaMemcpyDefault, stream), cudaSuccess);
      EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      return;
    }
    EXPECT_EQ(bench::FillNormalBf16(data, bytes, seed, stream), cudaSuccess);
  }
  [[nodiscard]] uint64_t Hash(const void* data, uint64_t bytes) {
    std::unique_ptr<Memory> copy;
    if (!OnDevice(data)) {
      copy = std::make_unique<Memory>(MemoryKind::kDevice, bytes);
      EXPECT_EQ(cudaMemcpyAsync(copy->data(), data, bytes, cudaMemcpyDefault, stream), cudaSuccess);
      data = copy->data();
    }
    uint64_t hash = 0;
    EXPECT_EQ(cudaMemsetAsync(sum_, 0, sizeof(hash), stream), cudaSuccess);
    EXPECT_EQ(bench::AddHash(data, bytes, sum_, stream), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(&hash, sum_, sizeof(hash), cudaMemcpyDeviceToHost, stream),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    return hash;
  }
  /// The hash of what Fill() makes.
  [[nodiscard]] uint64_t Expected(uint64_t bytes, uint64_t seed) {
    const Memory memory(MemoryKind::kDevice, bytes);
    Fill(memory.data(), bytes, seed);
    return Hash(memory.data(), bytes);
  }

  cudaStream_t stream = nullptr;

 private:
  static bool OnDevice(const void* data) {
    cudaPointerAttributes attributes{};
    EXPECT_EQ(cudaPointerGetAttributes(&attributes, data), cudaSuccess);
    return attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  }
  uint64_t* sum_ = nullptr;
};

/// The peer's life.
int RunPeer(const char* address);

}  // namespace cinch::gpu_test
