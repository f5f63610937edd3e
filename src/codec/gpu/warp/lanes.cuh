// SPDX-License-Identifier: Apache-2.0
/// @file lanes.cuh
/// What one lane, or all 32 of a warp, do with registers and shared memory where PTX says it in
/// fewer instructions. Device only. "All lanes" functions are called by whole warps.
#pragma once

#include <cstdint>

namespace cinch::codec::gpu {

inline constexpr uint32_t kAllLanes = 0xFFFFFFFF;

/// BytePermute with all selector bits: 8 to 15 replicate a byte's sign, which the intrinsic drops.
__device__ __forceinline__ uint32_t Permute(uint32_t low, uint32_t high, uint32_t selector) {
  uint32_t result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(selector));
  return result;
}
/// The high word of high:low << min(by, 32).
__device__ __forceinline__ uint32_t ShiftLeftClamped(uint32_t low, uint32_t high, uint32_t by) {
  uint32_t result;
  asm("shf.l.clamp.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(by));
  return result;
}
/// The low word of high:low >> min(by, 32).
__device__ __forceinline__ uint32_t ShiftRightClamped(uint32_t low, uint32_t high, uint32_t by) {
  uint32_t result;
  asm("shf.r.clamp.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(by));
  return result;
}
/// The low word of high:low >> (by mod 32).
__device__ __forceinline__ uint32_t ShiftRightWrapped(uint32_t low, uint32_t high, uint32_t by) {
  uint32_t result;
  asm("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(by));
  return result;
}

/// threadIdx.x, asked for here: what is computed from it is not kept in registers from far away.
__device__ __forceinline__ uint32_t ThreadHere() {
  uint32_t thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

/// The value, of which the compiler does not know how it was computed.
__device__ __forceinline__ uint32_t Opaque(uint32_t value) {
  asm volatile("" : "+r"(value));
  return value;
}

template <int kDistance>
__device__ __forceinline__ void ScanStep(uint32_t& value) {
  asm volatile(
      "{ .reg .pred p; .reg .u32 t; shfl.sync.up.b32 t|p, %0, %1, 0, 0xffffffff; @p add.u32 %0, "
      "%0, "
      "t; }"
      : "+r"(value)
      : "n"(kDistance));
}
/// All lanes: the sum of the lanes up to this one. Numbers packed in a word add up independently as
/// long as none overflows.
__device__ __forceinline__ uint32_t ScanInclusive(uint32_t value) {
  ScanStep<1>(value);
  ScanStep<2>(value);
  ScanStep<4>(value);
  ScanStep<8>(value);
  ScanStep<16>(value);
  return value;
}

/// The same for two numbers, one after the other at every step, so that neither waits for the
/// other.
__device__ __forceinline__ void ScanTwoInclusive(uint32_t* first, uint32_t* second) {
  ScanStep<1>(*first);
  ScanStep<1>(*second);
  ScanStep<2>(*first);
  ScanStep<2>(*second);
  ScanStep<4>(*first);
  ScanStep<4>(*second);
  ScanStep<8>(*first);
  ScanStep<8>(*second);
  ScanStep<16>(*first);
  ScanStep<16>(*second);
}

__device__ __forceinline__ uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}
template <int kOffset = 0>
__device__ __forceinline__ uint32_t LoadShared32(uint32_t address) {
  uint32_t value;
  asm volatile("ld.shared.u32 %0, [%1+%2];" : "=r"(value) : "r"(address), "n"(kOffset) : "memory");
  return value;
}
template <int kOffset = 0>
__device__ __forceinline__ uint32_t LoadShared8(uint32_t address) {
  uint32_t value;
  asm volatile("ld.shared.u8 %0, [%1+%2];" : "=r"(value) : "r"(address), "n"(kOffset) : "memory");
  return value;
}
template <int kOffset = 0>
__device__ __forceinline__ void StoreShared32(uint32_t address, uint32_t value) {
  asm volatile("st.shared.u32 [%0+%2], %1;" ::"r"(address), "r"(value), "n"(kOffset) : "memory");
}
template <int kOffset = 0>
__device__ __forceinline__ void StoreShared8(uint32_t address, uint32_t value) {
  asm volatile("st.shared.u8 [%0+%2], %1;" ::"r"(address), "r"(value), "n"(kOffset) : "memory");
}
__device__ __forceinline__ void StoreShared16(uint32_t address, uint32_t value) {
  asm volatile("{ .reg .u16 t; cvt.u16.u32 t, %1; st.shared.u16 [%0], t; }" ::"r"(address),
               "r"(value)
               : "memory");
}
__device__ __forceinline__ void StoreShared64(uint32_t address, uint32_t low, uint32_t high) {
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(address), "r"(low), "r"(high) : "memory");
}

/// A load from shared memory that the compiler may move between barriers, and combine with others:
/// for memory that nobody writes meanwhile. `address` is a multiple of T's alignment.
template <typename T>
__device__ __forceinline__ T ReadShared(uint32_t address) {
  return *static_cast<const T*>(__cvta_shared_to_generic(address));
}
/// Four bytes at any shared address, from the two words around them, in the same way.
__device__ __forceinline__ uint32_t ReadSharedUnaligned(uint32_t address) {
  const uint32_t aligned = address & ~3U;
  return ShiftRightWrapped(ReadShared<uint32_t>(aligned), ReadShared<uint32_t>(aligned + 4),
                           8 * address);
}
/// The same for stores.
template <typename T>
__device__ __forceinline__ void WriteShared(uint32_t address, T value) {
  *static_cast<T*>(__cvta_shared_to_generic(address)) = value;
}

/// A load of global memory that is read once.
__device__ __forceinline__ uint4 LoadStream(const void* pointer) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(pointer));
  return value;
}
/// A store to memory that is written once and that the kernel does not read: loads may pass it.
__device__ __forceinline__ void StoreStreamLoose(void* pointer, uint4 value) {
  asm volatile("st.global.L1::no_allocate.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(pointer),
               "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w));
}

}  // namespace cinch::codec::gpu
