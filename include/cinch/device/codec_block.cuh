// SPDX-License-Identifier: Apache-2.0
/// @file codec_block.cuh
/// Encoding and decoding one block from inside a kernel of your own: for kernels that make the data
/// or use it up, so that it never lies uncompressed in device memory.
///
/// A block is up to 32768 bytes of one dtype; its payload is what stands in a frame for it
/// (docs/format.md, sections 4 and 5). Putting payloads into a frame, with header and index, or
/// sending them in a form of your own is the kernel's business.
///
/// Compile with relocatable device code (nvcc -rdc=true, or CUDA_SEPARABLE_COMPILATION in CMake)
/// and link libcinch_device.a (CMake target cinch_device), which holds code for sm_80, sm_90 and
/// sm_100.
///
/// Every function is called by all threads of a thread block of exactly kThreads threads
/// (one-dimensional), with the same arguments, and has __syncthreads() inside; results are the same
/// in all threads. The functions use at most 64 registers a thread, no global memory but the given,
/// and no state: any number of thread blocks may call them at once. Call __syncthreads() between
/// reading a result's bytes and the next call with the same shared memory.
#pragma once

#include <cstdint>

#include "cinch/codec.h"
#include "cinch/status.h"

namespace cinch::device {

inline constexpr uint32_t kThreads = 512;
/// Original bytes of a whole block.
inline constexpr uint32_t kBlockBytes = 32768;
/// No payload is larger; a payload's size is a multiple of 16.
inline constexpr uint32_t kMaxPayloadBytes = 16 + kBlockBytes;

/// What EncodeBlock needs of shared memory, 128-byte aligned; dynamic, since it is more than 48
/// KiB. The caller owns it; between calls its contents mean nothing.
struct alignas(128) EncodeMemory {
  unsigned char bytes[70 * 1024];
};
struct alignas(128) DecodeMemory {
  unsigned char bytes[66 * 1024];
};

struct EncodedBlock {
  uint32_t payload_bytes;
  uint64_t hash;  ///< The block's checksum, or 0; a frame's content_hash is the sum of these.
};

/// Encodes `length_bytes` (1 to kBlockBytes) bytes at `bytes`, of any memory and alignment. The
/// payload is returned in shared memory: `*payload`, 16-byte aligned, is valid until the next call
/// with this memory. `index` is the block's number in its frame, which the checksum depends on.
/// `dtype` is any but ANY_INT; others count as bytes.
__device__ EncodedBlock EncodeBlock(const void* bytes, uint32_t length_bytes, cinch_dtype dtype,
                                    uint64_t index, bool checksum, EncodeMemory* memory,
                                    const unsigned char** payload);

/// Decodes the untrusted payload of `payload_bytes` bytes (16 to kMaxPayloadBytes, a multiple of
/// 16; anything else is FRAME_BLOCK) at `payload`, of any memory, 16-byte aligned, which nobody
/// changes meanwhile. The `length_bytes` original bytes are returned in shared memory: `*bytes`,
/// 16-byte aligned, is valid until the next call with this memory, and only when the status is OK.
/// OK, FRAME_BLOCK, FRAME_CHECKSUM. `hash` may be null.
__device__ cinch_status DecodeBlock(const void* payload, uint32_t payload_bytes,
                                    uint32_t length_bytes, uint64_t index, bool checksum,
                                    DecodeMemory* memory, const unsigned char** bytes,
                                    uint64_t* hash);

}  // namespace cinch::device
