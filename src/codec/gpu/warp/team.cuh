// SPDX-License-Identifier: Apache-2.0
/// @file team.cuh
/// The threads that work on one block. The block algorithm is written against this interface:
///
///   kLanes, lane(), warp(), warps(), thread(), threads()    who and how many
///   Sync(), WarpSync()                                      barriers, of the team and of the warp
///   SyncAny(bool)                                           a barrier; true if any thread says so
///   WarpSum, WarpMax, WarpOr, WarpSum64, WarpExclusive      results valid in every lane
///   Add, Add64, Or                                          atomics on the team's own memory
///
/// Functions whose name starts with Warp are called by all lanes of a warp, those with Sync by all
/// threads of the team. SoloTeam is one thread, for the host; CtaTeam is a thread block.
#pragma once

#include <cstdint>

#include "codec/gpu/warp/portable.cuh"

namespace cinch::codec::gpu {

/// One thread alone, on the host.
class SoloTeam {
 public:
  static constexpr uint32_t kLanes = 1;
  uint32_t lane() const { return 0; }
  uint32_t warp() const { return 0; }
  uint32_t warps() const { return 1; }
  uint32_t thread() const { return 0; }
  uint32_t threads() const { return 1; }
  void Sync() const {}
  void WarpSync() const {}
  bool SyncAny(bool value) const { return value; }
  uint32_t WarpSum(uint32_t value) const { return value; }
  uint32_t WarpMax(uint32_t value) const { return value; }
  uint32_t WarpOr(uint32_t value) const { return value; }
  uint64_t WarpSum64(uint64_t value) const { return value; }
  /// The sum of `value` over the lanes before this one; `total` receives that over all lanes.
  uint32_t WarpExclusive(uint32_t value, uint32_t* total) const {
    *total = value;
    return 0;
  }
  void Add(uint32_t* sum, uint32_t value) const { *sum += value; }
  void Add64(uint64_t* sum, uint64_t value) const { *sum += value; }
  void Or(uint32_t* bits, uint32_t value) const { *bits |= value; }
};

#ifdef __CUDACC__

/// A thread block of kThreads threads, one-dimensional. Its memory is shared memory.
template <uint32_t kThreads>
class CtaTeam {
 public:
  static constexpr uint32_t kLanes = 32;
  __device__ __forceinline__ uint32_t lane() const { return threadIdx.x % kLanes; }
  __device__ __forceinline__ uint32_t warp() const { return threadIdx.x / kLanes; }
  __device__ __forceinline__ uint32_t warps() const { return kThreads / kLanes; }
  __device__ __forceinline__ uint32_t thread() const { return threadIdx.x; }
  __device__ __forceinline__ uint32_t threads() const { return kThreads; }
  __device__ __forceinline__ void Sync() const { __syncthreads(); }
  __device__ __forceinline__ void WarpSync() const { __syncwarp(); }
  __device__ __forceinline__ bool SyncAny(bool value) const {
    return __syncthreads_or(value ? 1 : 0) != 0;
  }
  __device__ __forceinline__ uint32_t WarpSum(uint32_t value) const {
    return __reduce_add_sync(kAll, value);
  }
  __device__ __forceinline__ uint32_t WarpMax(uint32_t value) const {
    return __reduce_max_sync(kAll, value);
  }
  __device__ __forceinline__ uint32_t WarpOr(uint32_t value) const {
    return __reduce_or_sync(kAll, value);
  }
  /// In three parts of 24 bits and less, so that 32 of them do not overflow a word.
  __device__ __forceinline__ uint64_t WarpSum64(uint64_t value) const {
    const uint64_t low = WarpSum(static_cast<uint32_t>(value) & 0xFFFFFF);
    const uint64_t middle = WarpSum(static_cast<uint32_t>(value >> 24) & 0xFFFFFF);
    const uint64_t high = WarpSum(static_cast<uint32_t>(value >> 48));
    return low + (middle << 24) + (high << 48);
  }
  __device__ __forceinline__ uint32_t WarpExclusive(uint32_t value, uint32_t* total) const {
    uint32_t inclusive = value;
#pragma unroll
    for (uint32_t distance = 1; distance < kLanes; distance *= 2) {
      const uint32_t below = __shfl_up_sync(kAll, inclusive, distance);
      if (lane() >= distance) inclusive += below;
    }
    *total = __shfl_sync(kAll, inclusive, kLanes - 1);
    return inclusive - value;
  }
  __device__ __forceinline__ void Add(uint32_t* sum, uint32_t value) const {
    atomicAdd(sum, value);
  }
  __device__ __forceinline__ void Add64(uint64_t* sum, uint64_t value) const {
    atomicAdd(reinterpret_cast<unsigned long long*>(sum), static_cast<unsigned long long>(value));
  }
  __device__ __forceinline__ void Or(uint32_t* bits, uint32_t value) const {
    atomicOr(bits, value);
  }

 private:
  static constexpr uint32_t kAll = 0xFFFFFFFF;
};

#endif  // __CUDACC__

}  // namespace cinch::codec::gpu
