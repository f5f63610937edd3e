// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>

#include "support/gpu_data.h"

namespace cinch::bench {
namespace {

constexpr int kThreads = 256;
constexpr int kCtas = 1024;

__device__ uint64_t Mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  x ^= x >> 33;
  return x;
}

__global__ void Normal(uint16_t* values, uint64_t count, uint64_t seed) {
  const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const uint64_t bits = Mix(Mix(i) ^ seed);
    const float radius = sqrtf(-2 * logf((static_cast<uint32_t>(bits) + 1.0f) * 2.3283064e-10f));
    const float angle = static_cast<float>(bits >> 32) * (2.3283064e-10f * 6.2831853f);
    values[i] = __bfloat16_as_ushort(__float2bfloat16(0.02f * radius * cosf(angle)));
  }
}

__global__ void Random(uint64_t* words, uint64_t count, uint64_t seed) {
  const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    words[i] = Mix(Mix(i) ^ seed);
  }
}

__global__ void Change(uint16_t* values, uint64_t count, uint64_t limit, uint32_t mask,
                       uint64_t seed) {
  const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const uint64_t bits = Mix(Mix(i) ^ seed);
    if (bits >> 16 >= limit) continue;
    const uint32_t change = static_cast<uint32_t>(Mix(bits)) & mask;
    values[i] ^= static_cast<uint16_t>(change == 0 ? 1 : change);
  }
}

__global__ void Hash(const uint64_t* words, uint64_t count, uint64_t* hash) {
  const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
  uint64_t sum = 0;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    sum += Mix(words[i] ^ Mix(i));
  }
  atomicAdd(reinterpret_cast<unsigned long long*>(hash), sum);
}

}  // namespace

cudaError_t FillNormalBf16(void* memory, uint64_t bytes, uint64_t seed, cudaStream_t stream) {
  Normal<<<kCtas, kThreads, 0, stream>>>(static_cast<uint16_t*>(memory), bytes / 2, seed);
  return cudaGetLastError();
}

cudaError_t FillRandom(void* memory, uint64_t bytes, uint64_t seed, cudaStream_t stream) {
  Random<<<kCtas, kThreads, 0, stream>>>(static_cast<uint64_t*>(memory), bytes / 8, seed);
  return cudaGetLastError();
}

cudaError_t ChangeElements(void* memory, uint64_t bytes, double fraction, int mantissa_bits,
                           uint64_t seed, cudaStream_t stream) {
  constexpr double kScale = 281474976710656.0;  // 2^48
  Change<<<kCtas, kThreads, 0, stream>>>(static_cast<uint16_t*>(memory), bytes / 2,
                                         static_cast<uint64_t>(fraction * kScale),
                                         (1u << mantissa_bits) - 1, seed);
  return cudaGetLastError();
}

cudaError_t AddHash(const void* memory, uint64_t bytes, uint64_t* hash, cudaStream_t stream) {
  Hash<<<kCtas, kThreads, 0, stream>>>(static_cast<const uint64_t*>(memory), bytes / 8, hash);
  return cudaGetLastError();
}

}  // namespace cinch::bench
