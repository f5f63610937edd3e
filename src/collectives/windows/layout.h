// SPDX-License-Identifier: Apache-2.0
/// @file layout.h
/// What lies where in a rank's window: the device memory that its peers write into. Computed alike
/// on every rank, on host and device.
///
///   control | counts of the rank itself | credits | flags | slots
///
/// "Channel" c of a pair of ranks is what one warp of the sender says to one warp of the receiver:
/// a ring of slots, a flag a slot (written by the sender, behind the data) and a credit (written
/// into the sender's window by the receiver, behind its last use of the data).
#pragma once

#include <cstdint>

#include "format/host_device.h"

namespace cinch::fused {

inline constexpr uint32_t kMaxRanks = 16;
/// A unit of hand-over is at most so large, and so is a slot.
inline constexpr uint32_t kSlotBytes = 8192;

struct WindowLayout {
  uint32_t ranks;
  uint32_t channels;  ///< Of each ordered pair of ranks.
  uint32_t slots;     ///< Of each channel; a power of two.

  static constexpr uint64_t kControlBytes = 256;

  CINCH_HOST_DEVICE constexpr uint64_t Pairs() const { return uint64_t{ranks - 1} * channels; }
  /// Among the peers of `self`, whose windows have a part for each.
  CINCH_HOST_DEVICE static constexpr uint32_t PeerIndex(uint32_t self, uint32_t peer) {
    return peer < self ? peer : peer - 1;
  }
  CINCH_HOST_DEVICE constexpr uint64_t Pair(uint32_t self, uint32_t peer, uint32_t channel) const {
    return uint64_t{PeerIndex(self, peer)} * channels + channel;
  }

  CINCH_HOST_DEVICE constexpr uint64_t Round(uint64_t bytes) const {
    return (bytes + 255) / 256 * 256;
  }
  CINCH_HOST_DEVICE constexpr uint64_t SentBase() const { return kControlBytes; }
  CINCH_HOST_DEVICE constexpr uint64_t ReceivedBase() const {
    return SentBase() + Round(4 * Pairs());
  }
  CINCH_HOST_DEVICE constexpr uint64_t CreditBase() const {
    return ReceivedBase() + Round(4 * Pairs());
  }
  CINCH_HOST_DEVICE constexpr uint64_t FlagBase() const {
    return CreditBase() + Round(4 * Pairs());
  }
  CINCH_HOST_DEVICE constexpr uint64_t SlotBase() const {
    return FlagBase() + Round(8 * Pairs() * slots);
  }
  CINCH_HOST_DEVICE constexpr uint64_t Bytes() const {
    return SlotBase() + Pairs() * slots * kSlotBytes;
  }

  /// In the window of `self`: units sent to, and received from, `peer` so far; only `self` uses
  /// them, from one launch to the next.
  CINCH_HOST_DEVICE constexpr uint64_t SentOffset(uint32_t self, uint32_t peer,
                                                  uint32_t channel) const {
    return SentBase() + 4 * Pair(self, peer, channel);
  }
  CINCH_HOST_DEVICE constexpr uint64_t ReceivedOffset(uint32_t self, uint32_t peer,
                                                      uint32_t channel) const {
    return ReceivedBase() + 4 * Pair(self, peer, channel);
  }
  /// In the window of `self`: what `peer`, as a receiver, has consumed of what `self` sent.
  CINCH_HOST_DEVICE constexpr uint64_t CreditOffset(uint32_t self, uint32_t peer,
                                                    uint32_t channel) const {
    return CreditBase() + 4 * Pair(self, peer, channel);
  }
  /// In the window of `self`: flags and slots of what `peer` sends to `self`.
  CINCH_HOST_DEVICE constexpr uint64_t FlagOffset(uint32_t self, uint32_t peer,
                                                  uint32_t channel) const {
    return FlagBase() + 8 * Pair(self, peer, channel) * slots;
  }
  CINCH_HOST_DEVICE constexpr uint64_t SlotOffset(uint32_t self, uint32_t peer,
                                                  uint32_t channel) const {
    return SlotBase() + Pair(self, peer, channel) * slots * kSlotBytes;
  }
};

/// The control part: the word that makes every warp of the rank leave, written by whoever gives up
/// first, the rank itself or a peer.
inline constexpr uint64_t kStopOffset = 0;

}  // namespace cinch::fused
