// SPDX-License-Identifier: Apache-2.0
/// @file lanes.cuh
/// src/codec/gpu/warp/lanes.cuh for emulated_gpu.h.
#pragma once

#include <cstdint>
#include <cstring>

#include "emulated_gpu.h"

namespace cinch::codec::gpu {

inline constexpr uint32_t kAllLanes = 0xFFFFFFFF;

inline uint32_t Permute(uint32_t low, uint32_t high, uint32_t selector) {
  const uint64_t both = (uint64_t{high} << 32) | low;
  uint32_t result = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t which = (selector >> (4 * i)) & 15;
    auto byte = static_cast<uint8_t>(both >> (8 * (which & 7)));
    if (which >= 8) byte = (byte & 0x80) != 0 ? 0xFF : 0;
    result |= uint32_t{byte} << (8 * i);
  }
  return result;
}
inline uint32_t ShiftLeftClamped(uint32_t low, uint32_t high, uint32_t by) {
  const uint64_t both = (uint64_t{high} << 32) | low;
  return static_cast<uint32_t>((both << std::min(by, 32U)) >> 32);
}
inline uint32_t ShiftRightClamped(uint32_t low, uint32_t high, uint32_t by) {
  const uint64_t both = (uint64_t{high} << 32) | low;
  return static_cast<uint32_t>(both >> std::min(by, 32U));
}
inline uint32_t ShiftRightWrapped(uint32_t low, uint32_t high, uint32_t by) {
  const uint64_t both = (uint64_t{high} << 32) | low;
  return static_cast<uint32_t>(both >> (by % 32));
}
inline uint32_t Opaque(uint32_t value) { return value; }
inline uint32_t ThreadHere() { return threadIdx.x; }
inline uint32_t ScanInclusive(uint32_t value) {
  for (uint32_t distance = 1; distance < 32; distance *= 2) {
    const uint32_t below = __shfl_up_sync(kAllLanes, value, distance);
    if (threadIdx.x % 32 >= distance) value += below;
  }
  return value;
}

inline void ScanTwoInclusive(uint32_t* first, uint32_t* second) {
  *first = ScanInclusive(*first);
  *second = ScanInclusive(*second);
}

inline uint32_t SharedAddress(const void* pointer) {
  const auto offset =
      static_cast<const uint8_t*>(pointer) - emulated::Grid::Current().own_block().shared_base();
  if (offset < 0 || offset >= emulated::kSharedBytes) throw std::logic_error("not shared memory");
  return static_cast<uint32_t>(offset);
}
/// Checks alignment, which a device would trap on.
template <typename T>
T* SharedPointer(uint32_t address) {
  if (address % sizeof(T) != 0 || address + sizeof(T) > emulated::kSharedBytes) {
    throw std::logic_error("a bad shared address");
  }
  return reinterpret_cast<T*>(emulated::Grid::Current().own_block().shared_base() + address);
}
template <int kOffset = 0>
uint32_t LoadShared32(uint32_t address) {
  return *SharedPointer<uint32_t>(address + kOffset);
}
template <int kOffset = 0>
uint32_t LoadShared8(uint32_t address) {
  return *SharedPointer<uint8_t>(address + kOffset);
}
template <int kOffset = 0>
void StoreShared32(uint32_t address, uint32_t value) {
  *SharedPointer<uint32_t>(address + kOffset) = value;
}
template <int kOffset = 0>
void StoreShared8(uint32_t address, uint32_t value) {
  *SharedPointer<uint8_t>(address + kOffset) = static_cast<uint8_t>(value);
}
inline void StoreShared16(uint32_t address, uint32_t value) {
  *SharedPointer<uint16_t>(address) = static_cast<uint16_t>(value);
}
inline void StoreShared64(uint32_t address, uint32_t low, uint32_t high) {
  *SharedPointer<uint64_t>(address) = (uint64_t{high} << 32) | low;
}
inline uint4 LoadStream(const void* pointer) {
  if (reinterpret_cast<uintptr_t>(pointer) % 16 != 0) throw std::logic_error("not aligned");
  uint4 value;
  std::memcpy(&value, pointer, sizeof value);
  return value;
}
template <typename T>
T ReadShared(uint32_t address) {
  return *SharedPointer<const T>(address);
}
inline uint32_t ReadSharedUnaligned(uint32_t address) {
  const uint32_t aligned = address & ~3U;
  return ShiftRightWrapped(LoadShared32(aligned), LoadShared32(aligned + 4), 8 * address);
}
template <typename T>
void WriteShared(uint32_t address, T value) {
  *SharedPointer<T>(address) = value;
}
inline void StoreStreamLoose(void* pointer, uint4 value) {
  if (reinterpret_cast<uintptr_t>(pointer) % 16 != 0) throw std::logic_error("a bad address");
  std::memcpy(pointer, &value, sizeof value);
}

}  // namespace cinch::codec::gpu
