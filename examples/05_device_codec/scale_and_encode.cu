// SPDX-License-Identifier: Apache-2.0
// A kernel that makes data and compresses them before they ever reach device memory, and another
// that decompresses them and uses them up. Exits 0 when what comes out is what went in.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <vector>

#include "cinch/device/codec_block.cuh"

namespace {

using cinch::device::DecodeMemory;
using cinch::device::EncodeMemory;
using cinch::device::kBlockBytes;
using cinch::device::kMaxPayloadBytes;
using cinch::device::kThreads;

constexpr uint32_t kBlocks = 64;
constexpr uint32_t kFloats = kBlockBytes / sizeof(float);
/// A slot for each block's payload, as a receiver would have that does not know the sizes.
constexpr uint32_t kSlotBytes = (kMaxPayloadBytes + 127) / 128 * 128;

__device__ float ValueOf(uint32_t block, uint32_t i) {
  return 1.0F + static_cast<float>((i * 2654435761U + block) >> 20) / 65536.0F;
}

/// Makes a block of floats in shared memory and leaves its payload in the block's slot.
__global__ void __launch_bounds__(kThreads) MakeAndEncode(uint8_t* slots, uint32_t* sizes) {
  extern __shared__ __align__(128) unsigned char shared[];
  auto* memory = reinterpret_cast<EncodeMemory*>(shared);
  auto* values = reinterpret_cast<float*>(shared + sizeof(EncodeMemory));
  for (uint32_t i = threadIdx.x; i < kFloats; i += kThreads) values[i] = ValueOf(blockIdx.x, i);
  __syncthreads();
  const unsigned char* payload = nullptr;
  const auto encoded = cinch::device::EncodeBlock(values, kBlockBytes, CINCH_DTYPE_FP32, blockIdx.x,
                                                  true, memory, &payload);
  auto* slot = reinterpret_cast<uint4*>(slots + uint64_t{blockIdx.x} * kSlotBytes);
  for (uint32_t i = threadIdx.x; i < encoded.payload_bytes / 16; i += kThreads) {
    slot[i] = reinterpret_cast<const uint4*>(payload)[i];
  }
  if (threadIdx.x == 0) sizes[blockIdx.x] = encoded.payload_bytes;
}

/// Decodes each slot and counts the values that are not what they should be.
__global__ void __launch_bounds__(kThreads)
    DecodeAndCompare(const uint8_t* slots, const uint32_t* sizes, uint32_t* wrong) {
  extern __shared__ __align__(128) unsigned char shared[];
  const unsigned char* bytes = nullptr;
  const cinch_status status = cinch::device::DecodeBlock(
      slots + uint64_t{blockIdx.x} * kSlotBytes, sizes[blockIdx.x], kBlockBytes, blockIdx.x, true,
      reinterpret_cast<DecodeMemory*>(shared), &bytes, nullptr);
  for (uint32_t i = threadIdx.x; i < kFloats; i += kThreads) {
    const bool right =
        status == CINCH_OK && reinterpret_cast<const float*>(bytes)[i] == ValueOf(blockIdx.x, i);
    if (!right) atomicAdd(wrong, 1U);
  }
}

bool Ok(cudaError_t error) {
  if (error != cudaSuccess) std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  return error == cudaSuccess;
}

}  // namespace

int main() {
  constexpr int kEncodeShared = sizeof(EncodeMemory) + kBlockBytes;
  constexpr int kDecodeShared = sizeof(DecodeMemory);
  uint8_t* slots = nullptr;
  uint32_t* sizes = nullptr;
  uint32_t* wrong = nullptr;
  if (!Ok(cudaMalloc(&slots, uint64_t{kBlocks} * kSlotBytes)) ||
      !Ok(cudaMalloc(&sizes, kBlocks * sizeof *sizes)) || !Ok(cudaMalloc(&wrong, sizeof *wrong)) ||
      !Ok(cudaMemset(wrong, 0, sizeof *wrong)) ||
      !Ok(cudaFuncSetAttribute(MakeAndEncode, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               kEncodeShared)) ||
      !Ok(cudaFuncSetAttribute(DecodeAndCompare, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               kDecodeShared))) {
    return 1;
  }
  MakeAndEncode<<<kBlocks, kThreads, kEncodeShared>>>(slots, sizes);
  DecodeAndCompare<<<kBlocks, kThreads, kDecodeShared>>>(slots, sizes, wrong);
  std::vector<uint32_t> host_sizes(kBlocks);
  uint32_t host_wrong = 1;
  if (!Ok(cudaMemcpy(host_sizes.data(), sizes, kBlocks * sizeof *sizes, cudaMemcpyDeviceToHost)) ||
      !Ok(cudaMemcpy(&host_wrong, wrong, sizeof host_wrong, cudaMemcpyDeviceToHost))) {
    return 1;
  }
  uint64_t payload_bytes = 0;
  for (const uint32_t size : host_sizes) payload_bytes += size;
  std::printf("%u blocks: %llu bytes became %llu, %u values wrong\n", kBlocks,
              static_cast<unsigned long long>(kBlocks) * kBlockBytes,
              static_cast<unsigned long long>(payload_bytes), host_wrong);
  cudaFree(slots);
  cudaFree(sizes);
  cudaFree(wrong);
  return host_wrong == 0 && payload_bytes < uint64_t{kBlocks} * kBlockBytes ? 0 : 1;
}
