// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace cinch::bench {

/// Fills device memory with bf16 values of N(0, 0.02), a pure function of the seed.
cudaError_t FillNormalBf16(void* memory, uint64_t bytes, uint64_t seed, cudaStream_t stream);
/// Fills device memory with random bytes.
cudaError_t FillRandom(void* memory, uint64_t bytes, uint64_t seed, cudaStream_t stream);
/// Changes about `fraction` of the 16-bit elements in their low `mantissa_bits`, at places and by
/// amounts that are a pure function of the seed.
cudaError_t ChangeElements(void* memory, uint64_t bytes, double fraction, int mantissa_bits,
                           uint64_t seed, cudaStream_t stream);
/// Adds a hash of device memory, which depends on the place of every byte, to `*hash` (device).
cudaError_t AddHash(const void* memory, uint64_t bytes, uint64_t* hash, cudaStream_t stream);

}  // namespace cinch::bench
