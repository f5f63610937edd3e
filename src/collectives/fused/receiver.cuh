// SPDX-License-Identifier: Apache-2.0
/// @file receiver.cuh
/// One warp that decodes what peers have stored into this rank's window. Device only.
#pragma once

#include <cstdint>

#include "collectives/fused/copy.cuh"
#include "collectives/fused/parameters.h"
#include "collectives/fused/sender.cuh"
#include "collectives/fused/tile.cuh"
#include "collectives/fused/wait.cuh"

namespace cinch::fused {

/// A unit that has arrived.
struct Arrived {
  const uint8_t* slot;
  UnitForm form;
};

/// All lanes of a warp. Lane l keeps the state of the channel from the l-th peer before this rank;
/// peers are named by their lane.
class Receiver {
 public:
  __device__ __forceinline__ Receiver(const Parameters& parameters, uint32_t channel,
                                      WarpMemory* memory)
      : parameters_(parameters), channel_(channel), memory_(memory) {
    if (!IsPeer()) return;
    peer_ = PeerOf(LaneId());
    received_ = *ReceivedAt();
  }

  __device__ __forceinline__ uint32_t PeerOf(uint32_t lane) const {
    const uint32_t rank = parameters_.rank;
    return rank > lane ? rank - 1 - lane : rank + parameters_.layout.ranks - 1 - lane;
  }
  /// The inverse, for another rank than this one.
  __device__ __forceinline__ uint32_t LaneOf(uint32_t peer) const {
    const uint32_t rank = parameters_.rank;
    return rank > peer ? rank - 1 - peer : rank + parameters_.layout.ranks - 1 - peer;
  }

  /// Waits for the next unit of a peer. False: give up.
  __device__ __forceinline__ bool Wait(uint32_t lane, uint32_t bytes, uint64_t step,
                                       Arrived* arrived) {
    const WindowLayout& layout = parameters_.layout;
    const uint32_t number = __shfl_sync(kAllLanes, received_, static_cast<int>(lane));
    const uint32_t peer = PeerOf(lane);
    const uint8_t* own = parameters_.window[parameters_.rank];
    const uint32_t slot = SlotOf(number, layout.slots);
    const auto* flag_at = reinterpret_cast<const uint64_t*>(
                              own + layout.FlagOffset(parameters_.rank, peer, channel_)) +
                          slot;
    uint64_t flag = 0;
    bool sound = true;
    if (LaneId() == 0) {
      const Waited waited{peer, 1, channel_, step};
      flag = LoadAcquireSystem(flag_at);
      Patience patience;
      const bool takes_any = (parameters_.measure & kIgnoreFlags) != 0;
      while (!HasArrived(flag, number) && !takes_any) {
        sound = patience.KeepsWaiting(parameters_, waited, FlagNumber(number),
                                      static_cast<uint32_t>(flag));
        if (!sound) break;
        flag = LoadAcquireSystem(flag_at);
      }
      if (sound && !IsSound(FormOf(flag), bytes)) {
        GiveUp(parameters_, waited, CINCH_ERROR_PROTOCOL, bytes, FormOf(flag).bytes);
        sound = false;
      }
    }
    flag = __shfl_sync(kAllLanes, flag, 0);
    arrived->form = FormOf(flag);
    arrived->slot =
        own + layout.SlotOffset(parameters_.rank, peer, channel_) + uint64_t{slot} * kSlotBytes;
    return __all_sync(kAllLanes, sound);
  }

  /// Gives a peer its room back: all lanes have used what the unit's slot held.
  __device__ __forceinline__ void Release(uint32_t lane) { ReleaseIf(LaneId() == lane); }
  /// The same for every peer.
  __device__ __forceinline__ void ReleaseAll() { ReleaseIf(IsPeer()); }

  /// Decodes a unit to `to`. False: its escapes are not what the flag says.
  __device__ __forceinline__ bool Store(const Arrived& unit, uint8_t* to) {
    if (unit.form.raw()) {
      StoreRaw(unit, to);
      return true;
    }
    const uint32_t tiles = unit.form.bytes / kTileBytes;
    CodedTile next;
    LoadCodedTile(unit.slot, &next);
    LoadEscapes(unit.slot + EscapeOffset(tiles), unit.form.escapes);
    uint32_t escapes = 0;
#pragma unroll 1
    for (uint32_t t = 0; t < tiles; ++t) {
      const CodedTile coded = next;
      if (t + 1 < tiles) LoadCodedTile(unit.slot + (t + 1) * kCodedTileBytes, &next);
      const EscapePlace place = PlaceEscapes(coded.codes);
      if (escapes + place.total > unit.form.escapes) return false;
      Tile tile;
      WarpDecodeTile(coded, place, unit.form.window_start,
                     SharedAddress(memory_->escapes) + escapes, SharedAddress(memory_->rotated),
                     &tile);
      escapes += place.total;
      StoreAny(tile, to + t * kTileBytes);
    }
    return escapes == unit.form.escapes;
  }

  /// What a tile's loads bring; they are under way when this is returned.
  struct Fetched {
    CodedTile coded;
    uint32_t escape;  ///< The lane's, of the tile's first 32.
  };
  /// Starts loading tile `t` of a unit, which has `escapes` escapes in the tiles before.
  __device__ __forceinline__ void StartFetch(const Arrived& unit, uint32_t t, uint32_t escapes,
                                             Fetched* fetched) {
    if (unit.form.raw()) return;
    LoadCodedTile(unit.slot + t * kCodedTileBytes, &fetched->coded);
    const uint8_t* list = unit.slot + EscapeOffset(unit.form.bytes / kTileBytes);
    const uint32_t at = escapes + LaneId();
    fetched->escape = at < unit.form.escapes ? LoadOnce8(list + at) : 0;
  }
  /// Tile `t` of a unit, whatever its form; bytes behind its end are 0. `*escapes` counts those of
  /// the unit's tiles before. False as above.
  __device__ __forceinline__ bool Fetch(const Arrived& unit, uint32_t t, const Fetched& fetched,
                                        uint32_t* escapes, Tile* tile) {
    if (unit.form.raw()) {
      FetchPlain(unit.slot + t * kTileBytes, unit.form.bytes - t * kTileBytes, tile);
      return true;
    }
    const EscapePlace place = PlaceEscapes(fetched.coded.codes);
    if (*escapes + place.total > unit.form.escapes) return false;
    __syncwarp();
    StoreShared8(SharedAddress(memory_->escapes) + LaneId(), fetched.escape);
    const uint8_t* list = unit.slot + EscapeOffset(unit.form.bytes / kTileBytes) + *escapes;
    for (uint32_t i = 32 + LaneId(); i < place.total; i += 32) memory_->escapes[i] = list[i];
    __syncwarp();
    WarpDecodeTile(fetched.coded, place, unit.form.window_start, SharedAddress(memory_->escapes),
                   SharedAddress(memory_->rotated), tile);
    *escapes += place.total;
    return true;
  }

  /// Up to a tile of `bytes` or more bytes from any address.
  __device__ __forceinline__ void FetchPlain(const uint8_t* from, uint32_t bytes, Tile* tile) {
    if (bytes >= kTileBytes && IsAligned16(from)) {
      LoadTile(from, tile);
      return;
    }
    const uint32_t part = bytes < kTileBytes ? bytes : kTileBytes;
    __syncwarp();
    for (uint32_t at = part + LaneId(); at < kTileBytes; at += 32) memory_->rotated[at] = 0;
    WarpCopy(memory_->rotated, from, part);
    __syncwarp();
    LoadTileShared(SharedAddress(memory_->rotated), tile);
    __syncwarp();
  }

  /// Stores the first `bytes` bytes of a tile at any address.
  __device__ __forceinline__ void StoreAny(const Tile& tile, uint8_t* to,
                                           uint32_t bytes = kTileBytes) {
    if (bytes >= kTileBytes && IsAligned16(to)) {
      StoreTile(tile, to);
      return;
    }
    __syncwarp();
    StoreTileShared(tile, SharedAddress(memory_->rotated));
    __syncwarp();
    WarpCopy(to, memory_->rotated, bytes < kTileBytes ? bytes : kTileBytes);
    __syncwarp();
  }

  __device__ __forceinline__ void ReportBroken(uint32_t lane, uint64_t step) {
    if (LaneId() == 0) {
      GiveUp(parameters_, {PeerOf(lane), 1, channel_, step}, CINCH_ERROR_PROTOCOL, 0, 0);
    }
  }

  /// Keeps the state for the next launch; by each of `teams` warps that share a channel's peers.
  __device__ __forceinline__ void Finish(uint32_t team, uint32_t teams) {
    if (IsPeer() && LaneId() % teams == team) *ReceivedAt() = received_;
  }

 private:
  __device__ __forceinline__ bool IsPeer() const { return LaneId() < parameters_.layout.ranks - 1; }
  __device__ __forceinline__ uint32_t* ReceivedAt() const {
    return reinterpret_cast<uint32_t*>(
        parameters_.window[parameters_.rank] +
        parameters_.layout.ReceivedOffset(parameters_.rank, peer_, channel_));
  }

  __device__ __forceinline__ void ReleaseIf(bool releases) {
    __syncwarp();
    if (!releases) return;
    ++received_;
    const uint64_t at = parameters_.layout.CreditOffset(peer_, parameters_.rank, channel_);
    StoreReleaseSystem(reinterpret_cast<uint32_t*>(parameters_.window[peer_] + at), received_);
  }

  __device__ __forceinline__ void StoreRaw(const Arrived& unit, uint8_t* to) {
    if (unit.form.bytes % kTileBytes == 0 && IsAligned16(to)) {
      for (uint32_t at = 0; at < unit.form.bytes; at += kTileBytes) {
        Tile tile;
        LoadTile(unit.slot + at, &tile);
        StoreTile(tile, to + at);
      }
    } else {
      WarpCopy(to, unit.slot, unit.form.bytes);
    }
  }

  /// Brings a unit's list into the warp's memory.
  __device__ __forceinline__ void LoadEscapes(const uint8_t* list, uint32_t count) {
    __syncwarp();
    for (uint32_t at = 16 * LaneId(); at < count; at += 512) {
      StoreShared128(SharedAddress(memory_->escapes) + at, LoadOnce(list + at));
    }
    __syncwarp();
  }

  const Parameters& parameters_;
  uint32_t channel_;
  WarpMemory* memory_;
  uint32_t peer_ = 0;
  uint32_t received_ = 0;
};

}  // namespace cinch::fused
