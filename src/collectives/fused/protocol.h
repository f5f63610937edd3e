// SPDX-License-Identifier: Apache-2.0
/// @file protocol.h
/// The rules of a channel as plain functions: sequence numbers, slots, credits and the flag word.
/// The kernels and the tests on the host use the same ones.
///
/// A channel's units are numbered from 0, modulo 2^32. Unit n goes to slot n mod slots. The sender
/// may write unit n once the receiver has consumed unit n - slots. A flag word says which unit lies
/// in its slot and what form it has; the receiver knows which one it waits for.
#pragma once

#include <cstdint>

#include "collectives/windows/layout.h"
#include "format/host_device.h"

namespace cinch::fused {

/// What a warp codes at once: 1024 elements of two bytes.
inline constexpr uint32_t kTileBytes = 2048;
/// 1024 residues, and 1024 codes of 3 bits.
inline constexpr uint32_t kCodedTileBytes = 1024 + 384;
inline constexpr uint32_t kMaxUnitTiles = kSlotBytes / kTileBytes;
/// A unit with more symbols outside the window than this, a quarter, is sent as it is.
inline constexpr uint32_t kTileEscapes = 256;
inline constexpr uint32_t kMaxEscapes = kMaxUnitTiles * kTileEscapes;
static_assert(kMaxUnitTiles * kCodedTileBytes + kMaxEscapes <= kSlotBytes);

/// Symbols start to start + 6 have codes 0 to 6; code 7 is an escape. The largest start keeps a
/// symbol's byte from overflowing when a code is added to it.
inline constexpr uint32_t kWindowSymbols = 7;
inline constexpr uint32_t kMaxWindowStart = 248;

/// Where a coded unit's escapes are in its slot.
CINCH_HOST_DEVICE constexpr uint32_t EscapeOffset(uint32_t tiles) {
  return tiles * kCodedTileBytes;
}

/// What a flag says of a unit.
struct UnitForm {
  uint32_t bytes;    ///< Original bytes, 1 to kSlotBytes.
  uint32_t escapes;  ///< kRaw for a unit that is sent as it is.
  uint32_t window_start;

  static constexpr uint32_t kRaw = 0x7FF;
  CINCH_HOST_DEVICE constexpr bool raw() const { return escapes == kRaw; }
};

/// Bits 0 to 31: the unit's number plus one, so that a zeroed window has no unit 0. Bits 32 to 44:
/// bytes less one; 45 to 55: escapes; 56 to 63: the window's start.
CINCH_HOST_DEVICE constexpr uint64_t PackFlag(uint32_t number, const UnitForm& form) {
  return uint64_t{number + 1U} | (uint64_t{form.bytes - 1} << 32) | (uint64_t{form.escapes} << 45) |
         (uint64_t{form.window_start} << 56);
}
CINCH_HOST_DEVICE constexpr UnitForm FormOf(uint64_t flag) {
  return {static_cast<uint32_t>((flag >> 32) & 0x1FFF) + 1,
          static_cast<uint32_t>((flag >> 45) & 0x7FF), static_cast<uint32_t>(flag >> 56)};
}
/// What flag words have in their low half while unit `number` lies in the slot.
CINCH_HOST_DEVICE constexpr uint32_t FlagNumber(uint32_t number) { return number + 1U; }

CINCH_HOST_DEVICE constexpr bool HasArrived(uint64_t flag, uint32_t number) {
  return static_cast<uint32_t>(flag) == FlagNumber(number);
}
CINCH_HOST_DEVICE constexpr uint32_t SlotOf(uint32_t number, uint32_t slots) {
  return number & (slots - 1);
}
/// Whether unit `number` may be written when the receiver has consumed `consumed` units. Right for
/// numbers that have wrapped around, since they are never further apart than the slots.
CINCH_HOST_DEVICE constexpr bool MaySend(uint32_t number, uint32_t consumed, uint32_t slots) {
  return number - consumed < slots;
}

/// Whether a unit that has arrived is what the receiver's arguments call for, and safe to decode.
CINCH_HOST_DEVICE constexpr bool IsSound(const UnitForm& form, uint32_t expected_bytes) {
  return form.bytes == expected_bytes &&
         (form.raw() || (form.escapes <= form.bytes / kTileBytes * kTileEscapes &&
                         form.window_start <= kMaxWindowStart && form.bytes % kTileBytes == 0));
}

/// How a message of `bytes` bytes is cut: large units for long messages; for short ones such that
/// all channels have work. Sender and receiver find the same.
CINCH_HOST_DEVICE constexpr uint32_t UnitBytes(uint64_t bytes, uint32_t channels) {
  uint32_t tiles = kMaxUnitTiles;
  while (tiles > 1 && bytes < uint64_t{2} * tiles * kTileBytes * channels) tiles /= 2;
  return tiles * kTileBytes;
}
CINCH_HOST_DEVICE constexpr uint64_t UnitCount(uint64_t bytes, uint32_t unit_bytes) {
  return (bytes + unit_bytes - 1) / unit_bytes;
}
CINCH_HOST_DEVICE constexpr uint32_t LengthOfUnit(uint64_t bytes, uint32_t unit_bytes,
                                                  uint64_t unit) {
  const uint64_t left = bytes - unit * unit_bytes;
  return left < unit_bytes ? static_cast<uint32_t>(left) : unit_bytes;
}

/// Elements of each part when `elements` are divided among the ranks: whole units, but for the end.
struct Share {
  uint64_t begin;
  uint64_t end;
};
CINCH_HOST_DEVICE constexpr Share ShareOfRank(uint64_t bytes, uint32_t ranks, uint32_t rank) {
  const uint64_t units = UnitCount(bytes, kTileBytes);
  const uint64_t each = (units + ranks - 1) / ranks * kTileBytes;
  const uint64_t begin = each * rank < bytes ? each * rank : bytes;
  const uint64_t end = begin + each < bytes ? begin + each : bytes;
  return {begin, end};
}

}  // namespace cinch::fused
