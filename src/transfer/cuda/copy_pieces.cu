// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "transfer/cuda/copy_pieces.h"

namespace cinch::transfer {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kMaxCtas = 2048;

template <typename Word>
__device__ bool BothAligned(const uint8_t* left, const uint8_t* right) {
  const auto bits = reinterpret_cast<uintptr_t>(left) | reinterpret_cast<uintptr_t>(right);
  return bits % sizeof(Word) == 0;
}

// By all threads of a thread block.
template <typename Word>
__device__ void CopyWords(const uint8_t* from, uint8_t* to, uint64_t bytes) {
  const uint64_t words = bytes / sizeof(Word);
  const auto* source = reinterpret_cast<const Word*>(from);
  auto* target = reinterpret_cast<Word*>(to);
#pragma unroll 4
  for (uint64_t i = threadIdx.x; i < words; i += kThreads) target[i] = source[i];
  const uint64_t tail = words * sizeof(Word);
  for (uint64_t i = tail + threadIdx.x; i < bytes; i += kThreads) to[i] = from[i];
}

__device__ void CopyBytes(const uint8_t* from, uint8_t* to, uint64_t bytes) {
  if (BothAligned<uint4>(from, to)) {
    CopyWords<uint4>(from, to, bytes);
  } else if (BothAligned<uint32_t>(from, to)) {
    CopyWords<uint32_t>(from, to, bytes);
  } else {
    CopyWords<uint8_t>(from, to, bytes);
  }
}

__global__ void __launch_bounds__(kThreads)
    CopyPieces(const CopyEntry* entries, uint32_t count, bool gather) {
  for (uint32_t i = blockIdx.x; i < count; i += gridDim.x) {
    const CopyEntry entry = entries[i];
    if (gather) {
      CopyBytes(entry.piece, entry.flat, entry.bytes);
    } else {
      CopyBytes(entry.flat, entry.piece, entry.bytes);
    }
  }
}

}  // namespace

cudaError_t LaunchCopyPieces(const CopyEntry* entries, uint32_t count, bool gather,
                             uint32_t max_ctas, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  const uint32_t limit = max_ctas == 0 ? kMaxCtas : std::min(max_ctas, kMaxCtas);
  CopyPieces<<<std::min(count, limit), kThreads, 0, stream>>>(entries, count, gather);
  return cudaGetLastError();
}

}  // namespace cinch::transfer
