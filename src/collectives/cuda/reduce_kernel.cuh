// SPDX-License-Identifier: Apache-2.0
/// @file reduce_kernel.cuh
/// Adds up in fp32, in the order of the sources, and rounds once.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "collectives/device.h"

namespace cinch::collectives {

inline constexpr uint32_t kReduceThreads = 256;

struct ReduceSources {
  const void* pointers[kMaxReduceSources];
};

__device__ inline float ToFloat(float value) { return value; }
__device__ inline float ToFloat(__half value) { return __half2float(value); }
__device__ inline float ToFloat(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ inline void FromFloat(float value, float* out) { *out = value; }
__device__ inline void FromFloat(float value, __half* out) { *out = __float2half_rn(value); }
__device__ inline void FromFloat(float value, __nv_bfloat16* out) {
  *out = __float2bfloat16_rn(value);
}

template <typename Element>
struct alignas(16) Pack {
  static constexpr uint32_t kElements = 16 / sizeof(Element);
  Element values[kElements];
};

/// `vectors`: all pointers are aligned to 16 bytes, and that many packs are done whole.
template <typename Element>
__global__ void __launch_bounds__(kReduceThreads)
    ReduceKernel(__grid_constant__ const ReduceSources sources, uint32_t source_count,
                 Element* output, uint64_t elements, uint64_t vectors, float scale) {
  using Vector = Pack<Element>;
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  const uint64_t start = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (uint64_t i = start; i < vectors; i += stride) {
    float sums[Vector::kElements];
    const Vector first = static_cast<const Vector*>(sources.pointers[0])[i];
#pragma unroll
    for (uint32_t k = 0; k < Vector::kElements; ++k) sums[k] = ToFloat(first.values[k]);
    for (uint32_t source = 1; source < source_count; ++source) {
      const Vector next = static_cast<const Vector*>(sources.pointers[source])[i];
#pragma unroll
      for (uint32_t k = 0; k < Vector::kElements; ++k) sums[k] += ToFloat(next.values[k]);
    }
    Vector result;
#pragma unroll
    for (uint32_t k = 0; k < Vector::kElements; ++k) {
      FromFloat(sums[k] * scale, &result.values[k]);
    }
    reinterpret_cast<Vector*>(output)[i] = result;
  }
  for (uint64_t i = vectors * Vector::kElements + start; i < elements; i += stride) {
    float sum = ToFloat(static_cast<const Element*>(sources.pointers[0])[i]);
    for (uint32_t source = 1; source < source_count; ++source) {
      sum += ToFloat(static_cast<const Element*>(sources.pointers[source])[i]);
    }
    FromFloat(sum * scale, &output[i]);
  }
}

}  // namespace cinch::collectives
