// SPDX-License-Identifier: Apache-2.0
/// @file kernels.cuh
/// Launches; the kernels themselves are compiled in files of their own.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "codec/gpu/kernels/batch.cuh"

namespace cinch::codec::gpu {

/// Allows the kernel its shared memory on the current device; receives how many thread blocks of it
/// fit a multiprocessor.
cudaError_t PrepareEncode(int* ctas_per_sm);
cudaError_t PrepareDecode(int* ctas_per_sm);
cudaError_t PreparePlanning();

cudaError_t LaunchEncode(const BatchParameters& batch, uint32_t ctas, cudaStream_t stream);
cudaError_t LaunchDecode(const BatchParameters& batch, uint32_t ctas, cudaStream_t stream);

/// Zeroes and prepares scratch memory of `bytes` bytes.
cudaError_t LaunchPrepareScratch(const Scratch& scratch, uint64_t bytes, cudaStream_t stream);
/// Brings `count` items, or bases, from the host to the scratch memory.
template <typename Entry>
cudaError_t LaunchUpload(Entry* to, const Entry* entries, uint32_t count, cudaStream_t stream);
/// Adds up the content hash of any bytes in `*content_hash`.
cudaError_t LaunchContentHash(const uint8_t* bytes, uint64_t size_bytes, uint64_t* content_hash,
                              uint32_t ctas, cudaStream_t stream);
cudaError_t PrepareContentHash();
/// Plans a batch of more than kInlineItems items.
cudaError_t LaunchPlan(const BatchParameters& batch, bool compress, cudaStream_t stream);

}  // namespace cinch::codec::gpu
