// SPDX-License-Identifier: Apache-2.0
/// @file portable.cuh
/// Word tricks that mean the same on a device and on the host, so that the block algorithm can be
/// tested without a GPU from the source that runs on one.
#pragma once

#include <cstdint>
#include <cstring>

#include "format/host_device.h"

// CINCH_PORTABLE marks what host and device code of one program may both call. CINCH_TEAM marks
// what a whole team calls: device code under nvcc, host code for any other compiler.
#ifdef __CUDACC__
#define CINCH_PORTABLE __host__ __device__ __forceinline__
#define CINCH_TEAM __device__ __forceinline__
#else
#define CINCH_PORTABLE inline
#define CINCH_TEAM inline
#endif

namespace cinch::codec::gpu {

/// Byte i of the result is byte (selector >> 4i) & 7 of high:low.
CINCH_PORTABLE uint32_t BytePermute(uint32_t low, uint32_t high, uint32_t selector) {
#ifdef __CUDA_ARCH__
  return __byte_perm(low, high, selector);
#else
  const uint64_t bytes = (uint64_t{high} << 32) | low;
  uint32_t result = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t source = (selector >> (4 * i)) & 7;
    result |= static_cast<uint32_t>((bytes >> (8 * source)) & 0xFF) << (8 * i);
  }
  return result;
#endif
}

CINCH_PORTABLE uint32_t RotateLeftOne(uint32_t word) { return (word << 1) | (word >> 31); }
CINCH_PORTABLE uint32_t RotateRightOne(uint32_t word) { return (word >> 1) | (word << 31); }

CINCH_PORTABLE uint32_t CountOnes(uint32_t word) {
#ifdef __CUDA_ARCH__
  return static_cast<uint32_t>(__popc(word));
#else
  return static_cast<uint32_t>(__builtin_popcount(word));
#endif
}

CINCH_PORTABLE uint32_t Minimum(uint32_t a, uint32_t b) { return a < b ? a : b; }
CINCH_PORTABLE uint64_t Minimum64(uint64_t a, uint64_t b) { return a < b ? a : b; }

CINCH_PORTABLE uint32_t ByteOf(uint32_t word, uint32_t index) {
  return (word >> (8 * index)) & 0xFF;
}

/// `bytes` must be aligned for T.
template <typename T>
CINCH_PORTABLE T LoadAligned(const uint8_t* bytes) {
#ifdef __CUDA_ARCH__
  return *reinterpret_cast<const T*>(bytes);
#else
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
#endif
}

/// `bytes` must be aligned for T.
template <typename T>
CINCH_PORTABLE void StoreAligned(uint8_t* bytes, T value) {
#ifdef __CUDA_ARCH__
  *reinterpret_cast<T*>(bytes) = value;
#else
  std::memcpy(bytes, &value, sizeof value);
#endif
}

CINCH_PORTABLE bool IsAligned(const void* address, uint32_t alignment) {
  return (reinterpret_cast<uintptr_t>(address) & (alignment - 1)) == 0;
}

/// The first `count` bytes at any address, as a little-endian number; the others read as zero.
template <typename T>
CINCH_PORTABLE T LoadBytes(const uint8_t* bytes, uint32_t count) {
  if (count == sizeof(T) && IsAligned(bytes, sizeof(T))) return LoadAligned<T>(bytes);
  T value = 0;
  for (uint32_t i = 0; i < count; ++i) value = static_cast<T>(value | T{bytes[i]} << (8 * i));
  return value;
}

/// Stores the low `count` bytes of a number at any address.
template <typename T>
CINCH_PORTABLE void StoreBytes(uint8_t* bytes, T value, uint32_t count) {
  if (count == sizeof(T) && IsAligned(bytes, sizeof(T))) return StoreAligned<T>(bytes, value);
  for (uint32_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(value >> (8 * i));
}

struct alignas(16) Words4 {
  uint32_t word[4];
};
struct alignas(8) Words2 {
  uint32_t word[2];
};

// Eight small numbers travel as the eight nibbles of a word. These gather and spread bits of them.

/// The low 4 bits of the four bytes of a word, as four nibbles.
CINCH_PORTABLE uint32_t NibblesOfBytes(uint32_t word) {
  word &= 0x0F0F0F0F;
  word = (word | (word >> 4)) & 0x00FF00FF;
  return (word | (word >> 8)) & 0xFFFF;
}
/// The inverse of NibblesOfBytes.
CINCH_PORTABLE uint32_t BytesOfNibbles(uint32_t nibbles) {
  nibbles = ((nibbles & 0xFFFF) | (nibbles << 8)) & 0x00FF00FF;
  return (nibbles | (nibbles << 4)) & 0x0F0F0F0F;
}
/// The low 2 bits of eight nibbles, 16 bits.
CINCH_PORTABLE uint32_t CrumbsOfNibbles(uint32_t nibbles) {
  nibbles &= 0x33333333;
  nibbles = (nibbles | (nibbles >> 2)) & 0x0F0F0F0F;
  nibbles = (nibbles | (nibbles >> 4)) & 0x00FF00FF;
  return (nibbles | (nibbles >> 8)) & 0xFFFF;
}
CINCH_PORTABLE uint32_t NibblesOfCrumbs(uint32_t crumbs) {
  crumbs = (crumbs | (crumbs << 8)) & 0x00FF00FF;
  crumbs = (crumbs | (crumbs << 4)) & 0x0F0F0F0F;
  return (crumbs | (crumbs << 2)) & 0x33333333;
}
/// The lowest bit of eight nibbles, 8 bits.
CINCH_PORTABLE uint32_t BitsOfNibbles(uint32_t nibbles) {
  nibbles &= 0x11111111;
  nibbles = (nibbles | (nibbles >> 3)) & 0x03030303;
  nibbles = (nibbles | (nibbles >> 6)) & 0x000F000F;
  return (nibbles | (nibbles >> 12)) & 0xFF;
}
CINCH_PORTABLE uint32_t NibblesOfBits(uint32_t bits) {
  bits = (bits | (bits << 12)) & 0x000F000F;
  bits = (bits | (bits << 6)) & 0x03030303;
  return (bits | (bits << 3)) & 0x11111111;
}

}  // namespace cinch::codec::gpu
