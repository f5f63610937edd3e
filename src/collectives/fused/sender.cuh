// SPDX-License-Identifier: Apache-2.0
/// @file sender.cuh
/// One warp that reads the user's data, codes it and stores it into peers' windows. Device only.
#pragma once

#include <cstdint>

#include "collectives/fused/copy.cuh"
#include "collectives/fused/parameters.h"
#include "collectives/fused/tile.cuh"
#include "collectives/fused/wait.cuh"

namespace cinch::fused {

/// What a lane knows of its channel; it is used once a unit, and would take registers.
struct SenderState {
  uint32_t sent[32];
  uint32_t consumed[32];
  uint64_t pending[32];  ///< The flag of the unit before, for where pending_at says unless null.
  uint64_t* pending_at[32];
};

/// A warp's shared memory, whatever it does.
struct WarpMemory {
  alignas(128) uint8_t stage[2][kCodedTileBytes];
  alignas(128) uint8_t rotated[kTileBytes];
  alignas(128) uint8_t escapes[kMaxEscapes];
  SenderState state;
};
static_assert(sizeof(WarpMemory::stage) >= kTileBytes);

/// kDirect: coded tiles go from registers to the peers. Otherwise, and for all else, from shared
/// memory, by bulk copies that run beside the warp where there are such.
///
/// All lanes of a warp. Lane l keeps the state of the channel to the l-th peer after this rank;
/// what is stored goes to the peers whose lanes are `active`.
template <bool kDirect>
class Sender {
 public:
  __device__ __forceinline__ Sender(const Parameters& parameters, uint32_t channel,
                                    WarpMemory* memory)
      : parameters_(parameters), channel_(channel), memory_(memory) {
    SenderState& state = memory->state;
    state.pending_at[LaneId()] = nullptr;
    if (IsPeer()) {
      state.sent[LaneId()] = *SentAt();
      state.consumed[LaneId()] = LoadAcquireSystem(CreditAt());
    }
  }

  /// Sends a unit of `bytes` bytes to the active lanes' peers, coded if it may be. `own_copy`,
  /// unless null, gets the bytes, too. `next`, unless null, is where the warp's next unit starts.
  /// False: give up.
  __device__ __forceinline__ bool Send(bool active, bool coded, const uint8_t* source,
                                       uint32_t bytes, uint8_t* own_copy, const uint8_t* next,
                                       uint64_t step) {
    if (!WaitForRoom(active, step)) return false;
    if (active) slot_ = SlotsAt() + SlotNumber() * uint64_t{kSlotBytes};
    UnitForm form{bytes, UnitForm::kRaw, 0};
    const bool may_code = coded && bytes % kTileBytes == 0;
    if (may_code && pause_ == 0) {
      form.escapes = SendCoded(active, source, bytes / kTileBytes, own_copy, next);
      form.window_start = window_start_;
      failures_ = form.raw() ? failures_ + 1 : 0;
      // Data that does not get smaller is tried less and less often.
      if (form.raw()) pause_ = 1U << (failures_ < 6 ? failures_ : 6);
    } else if (may_code) {
      --pause_;
    }
    if (form.raw()) SendRaw(active, source, bytes, own_copy);
    if (active) {
      SenderState& state = memory_->state;
      state.pending[LaneId()] = PackFlag(state.sent[LaneId()], form);
      state.pending_at[LaneId()] = FlagsAt() + SlotNumber();
      ++state.sent[LaneId()];
    }
    return true;
  }

  /// Signals what is on its way and keeps the state for the next launch.
  __device__ __forceinline__ void Finish() {
    Signal(false);
    WaitBulkWritten<0>();
    if (IsPeer()) *SentAt() = memory_->state.sent[LaneId()];
  }

 private:
  __device__ __forceinline__ bool IsPeer() const { return LaneId() < parameters_.layout.ranks - 1; }

  __device__ __forceinline__ uint32_t Peer() const {
    const uint32_t peer = parameters_.rank + 1 + LaneId();
    return peer < parameters_.layout.ranks ? peer : peer - parameters_.layout.ranks;
  }
  __device__ __forceinline__ uint32_t SlotNumber() const {
    return SlotOf(memory_->state.sent[LaneId()], parameters_.layout.slots);
  }
  __device__ __forceinline__ uint8_t* Own(uint64_t offset) const {
    return parameters_.window[parameters_.rank] + offset;
  }
  __device__ __forceinline__ uint32_t* SentAt() const {
    return reinterpret_cast<uint32_t*>(
        Own(parameters_.layout.SentOffset(parameters_.rank, Peer(), channel_)));
  }
  __device__ __forceinline__ uint32_t* CreditAt() const {
    return reinterpret_cast<uint32_t*>(
        Own(parameters_.layout.CreditOffset(parameters_.rank, Peer(), channel_)));
  }
  __device__ __forceinline__ uint8_t* SlotsAt() const {
    return parameters_.window[Peer()] +
           parameters_.layout.SlotOffset(Peer(), parameters_.rank, channel_);
  }
  __device__ __forceinline__ uint64_t* FlagsAt() const {
    return reinterpret_cast<uint64_t*>(
        parameters_.window[Peer()] +
        parameters_.layout.FlagOffset(Peer(), parameters_.rank, channel_));
  }

  __device__ __forceinline__ bool WaitForRoom(bool active, uint64_t step) {
    if ((parameters_.measure & kIgnoreCredits) != 0) return true;
    const uint32_t slots = parameters_.layout.slots;
    const uint32_t number = memory_->state.sent[LaneId()];
    uint32_t consumed = memory_->state.consumed[LaneId()];
    bool waits = active && !MaySend(number, consumed, slots);
    if (!__any_sync(kAllLanes, waits)) return true;
    // The peer cannot make room while it does not know of what was sent.
    Signal(false);
    Patience patience;
    bool gave_up = false;
    while (__any_sync(kAllLanes, waits)) {
      if (waits) {
        consumed = LoadAcquireSystem(CreditAt());
        waits = !MaySend(number, consumed, slots);
      }
      if (waits) {
        gave_up = !patience.KeepsWaiting(parameters_, {Peer(), 0, channel_, step},
                                         number - slots + 1, consumed);
      }
      if (__any_sync(kAllLanes, gave_up)) return false;
    }
    memory_->state.consumed[LaneId()] = consumed;
    __syncwarp();
    return true;
  }

  /// Stores staged bytes, a multiple of 16, at `offset` of the active lanes' slots.
  __device__ __forceinline__ void Push(bool active, uint32_t offset, const uint8_t* staged,
                                       uint32_t bytes) {
    if (!kDirect) FenceSharedForBulk();
    __syncwarp();
    if (CINCH_HAS_BULK_COPY && !kDirect) {
      if (active) BulkStore(slot_ + offset, SharedAddress(staged), bytes);
    } else {
      for (uint32_t lanes = __ballot_sync(kAllLanes, active); lanes != 0; lanes &= lanes - 1) {
        uint8_t* to = SlotOfLane(__ffs(static_cast<int>(lanes)) - 1);
        for (uint32_t at = 16 * LaneId(); at < bytes; at += 512) {
          StoreOnce(to + offset + at, LoadShared128(SharedAddress(staged) + at));
        }
      }
      __syncwarp();
    }
    Signal(active);
  }

  /// Publishes the unit before. A lane that has `newer` copies of the unit after it on their way,
  /// one group, need not wait for those.
  __device__ __forceinline__ void Signal(bool newer) {
    SenderState& state = memory_->state;
    uint64_t* pending_at = state.pending_at[LaneId()];
    if (pending_at != nullptr) {
      if (newer) {
        WaitBulkWritten<1>();
      } else {
        WaitBulkWritten<0>();
      }
      StoreReleaseSystem(pending_at, state.pending[LaneId()]);
      state.pending_at[LaneId()] = nullptr;
    }
    __syncwarp();
  }

  /// The number of escapes, or kRaw when the unit has to be sent as it is.
  __device__ __forceinline__ uint32_t SendCoded(bool active, const uint8_t* source, uint32_t tiles,
                                                uint8_t* own_copy, const uint8_t* next) {
    const EncodePlaces places{SharedAddress(memory_->rotated), SharedAddress(memory_->escapes)};
    const uint32_t limit = tiles * kTileEscapes;
    uint32_t escapes = 0;
    if (ahead_of_ != source) LoadAny(source);
#pragma unroll 1
    for (uint32_t t = 0; t < tiles; ++t) {
      const Tile tile = ahead_;
      ahead_of_ = t + 1 < tiles ? source + (t + 1) * kTileBytes : next;
      if (ahead_of_ != nullptr) LoadAny(ahead_of_);
      if (own_copy != nullptr) WarpStoreTile(tile, own_copy + t * kTileBytes);
      // Of the stage's last use, or of everything: the escapes of the unit before.
      if (t == 0) {
        WaitBulkRead<0>();
      } else {
        WaitBulkRead<1>();
      }
      __syncwarp();
      if (t == 0 && !window_fits_) window_start_ = ChooseWindow(tile, places.rotated);
      if (kDirect && t == 0) Signal(false);
      uint8_t* stage = memory_->stage[t % 2];
      escapes = WarpEncodeTile(
          tile, window_start_, places, escapes, limit,
          [&](const CodedTile& coded) { StoreCoded(coded, active, t * kCodedTileBytes, stage); });
      if (escapes > limit) break;
      if (!kDirect) Push(active, t * kCodedTileBytes, stage, kCodedTileBytes);
    }
    window_fits_ = escapes <= limit / 4;
    if (escapes > limit) {
      // What follows is stored over what has been stored so far.
      Signal(false);
      WaitBulkWritten<0>();
      ahead_of_ = nullptr;
      return UnitForm::kRaw;
    }
    if (escapes != 0) {
      Push(active, EscapeOffset(tiles), memory_->escapes, (escapes + 15) / 16 * 16);
    }
    return escapes;
  }

  __device__ __forceinline__ void StoreCoded(const CodedTile& coded, bool active, uint32_t offset,
                                             uint8_t* stage) {
    if constexpr (kDirect) {
      for (uint32_t lanes = __ballot_sync(kAllLanes, active); lanes != 0; lanes &= lanes - 1) {
        StoreCodedTile(coded, SlotOfLane(__ffs(static_cast<int>(lanes)) - 1) + offset);
      }
    } else {
      StoreCodedTileShared(coded, SharedAddress(stage));
    }
  }

  __device__ __forceinline__ uint8_t* SlotOfLane(int lane) const {
    return reinterpret_cast<uint8_t*>(
        __shfl_sync(kAllLanes, reinterpret_cast<unsigned long long>(slot_), lane));
  }

  __device__ __forceinline__ void LoadAny(const uint8_t* source) {
    if (IsAligned16(source)) {
      LoadTile(source, &ahead_);
      return;
    }
    __syncwarp();
    WarpCopy(memory_->rotated, source, kTileBytes);
    __syncwarp();
    LoadTileShared(SharedAddress(memory_->rotated), &ahead_);
    __syncwarp();
  }

  __device__ __forceinline__ void WarpStoreTile(const Tile& tile, uint8_t* to) {
    if (IsAligned16(to)) {
      StoreTile(tile, to);
      return;
    }
    __syncwarp();
    StoreTileShared(tile, SharedAddress(memory_->rotated));
    __syncwarp();
    WarpCopy(to, memory_->rotated, kTileBytes);
    __syncwarp();
  }

  __device__ __forceinline__ void SendRaw(bool active, const uint8_t* source, uint32_t bytes,
                                          uint8_t* own_copy) {
    uint8_t* stage = memory_->stage[0];
    for (uint32_t at = 0; at < bytes; at += kTileBytes) {
      const uint32_t part = bytes - at < kTileBytes ? bytes - at : kTileBytes;
      WaitBulkRead<0>();
      __syncwarp();
      WarpCopy(stage, source + at, part);
      Push(active, at, stage, (part + 15) / 16 * 16);
      if (own_copy != nullptr) WarpCopy(own_copy + at, stage, part);
      __syncwarp();
    }
  }

  const Parameters& parameters_;
  uint32_t channel_;
  WarpMemory* memory_;
  uint8_t* slot_ = nullptr;
  Tile ahead_;
  const uint8_t* ahead_of_ = nullptr;  ///< Where ahead_ is from.
  uint32_t window_start_ = 0;
  bool window_fits_ = false;
  uint32_t pause_ = 0;  ///< Units to send as they are before coding is tried again.
  uint32_t failures_ = 0;
};

}  // namespace cinch::fused
