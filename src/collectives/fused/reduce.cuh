// SPDX-License-Identifier: Apache-2.0
/// @file reduce.cuh
/// Adding up what the ranks sent: in fp32, rank 0 first, rounded once, to the nearest even. The
/// result does not depend on timing, nor on how the message is cut. Device only.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "collectives/fused/parameters.h"
#include "collectives/fused/receiver.cuh"
#include "collectives/fused/tile.cuh"

namespace cinch::fused {

/// How a word holds elements: kCount sums of each word.
template <typename Element>
struct WordOf;

template <>
struct WordOf<__nv_bfloat16> {
  static constexpr uint32_t kCount = 2;
  __device__ __forceinline__ static void Split(uint32_t word, float* values) {
    values[0] = __uint_as_float(word << 16);
    values[1] = __uint_as_float(word & 0xFFFF0000U);
  }
  __device__ __forceinline__ static uint32_t Join(const float* values) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(values[0], values[1]);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
};
template <>
struct WordOf<__half> {
  static constexpr uint32_t kCount = 2;
  __device__ __forceinline__ static void Split(uint32_t word, float* values) {
    const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&word));
    values[0] = pair.x;
    values[1] = pair.y;
  }
  __device__ __forceinline__ static uint32_t Join(const float* values) {
    const __half2 pair = __floats2half2_rn(values[0], values[1]);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
};
template <>
struct WordOf<float> {
  static constexpr uint32_t kCount = 1;
  __device__ __forceinline__ static void Split(uint32_t word, float* values) {
    values[0] = __uint_as_float(word);
  }
  __device__ __forceinline__ static uint32_t Join(const float* values) {
    return __float_as_uint(values[0]);
  }
};

template <typename Element>
struct Sums {
  static constexpr uint32_t kCount = WordOf<Element>::kCount;
  float value[kTileWords * kCount];

  __device__ __forceinline__ void Set(const Tile& tile) {
#pragma unroll
    for (uint32_t n = 0; n < kTileWords; ++n) {
      WordOf<Element>::Split(tile.word[n], value + kCount * n);
    }
  }
  __device__ __forceinline__ void Add(const Tile& tile) {
#pragma unroll
    for (uint32_t n = 0; n < kTileWords; ++n) {
      float more[kCount];
      WordOf<Element>::Split(tile.word[n], more);
#pragma unroll
      for (uint32_t i = 0; i < kCount; ++i) value[kCount * n + i] += more[i];
    }
  }
  __device__ __forceinline__ void Round(Tile* tile) const {
#pragma unroll
    for (uint32_t n = 0; n < kTileWords; ++n) {
      tile->word[n] = WordOf<Element>::Join(value + kCount * n);
    }
  }
};

/// The unit of the peer of a lane, from that lane.
__device__ __forceinline__ Arrived UnitOfLane(const Arrived& mine, uint32_t from) {
  const int lane = static_cast<int>(from);
  Arrived unit;
  unit.slot = reinterpret_cast<const uint8_t*>(
      __shfl_sync(kAllLanes, reinterpret_cast<unsigned long long>(mine.slot), lane));
  unit.form.bytes = __shfl_sync(kAllLanes, mine.form.bytes, lane);
  unit.form.escapes = __shfl_sync(kAllLanes, mine.form.escapes, lane);
  unit.form.window_start = __shfl_sync(kAllLanes, mine.form.window_start, lane);
  return unit;
}

/// The sums of tile `t` of a unit, the rank's own part of which is `own`. Lane l has the unit and
/// the count of escapes of its peer in `mine` and `*escapes`.
template <typename Element>
__device__ __forceinline__ bool ReduceTile(const Parameters& parameters, Receiver* receiver,
                                           const Arrived& mine, const uint8_t* own,
                                           uint32_t own_bytes, uint32_t t, uint32_t* escapes,
                                           Tile* tile) {
  const uint32_t ranks = parameters.layout.ranks;
  // Of the peer whose turn it is next; its loads start a turn ahead.
  Receiver::Fetched fetched{};
  Arrived unit;
  uint32_t before = 0;
  const auto start = [&](uint32_t rank) {
    const uint32_t lane = receiver->LaneOf(rank);
    unit = UnitOfLane(mine, lane);
    before = __shfl_sync(kAllLanes, *escapes, static_cast<int>(lane));
    receiver->StartFetch(unit, t, before, &fetched);
  };
  start(parameters.rank == 0 ? 1 : 0);
  Tile own_tile;
  receiver->FetchPlain(own, own_bytes, &own_tile);
  Sums<Element> sums;
#pragma unroll 1
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if (rank == parameters.rank) {
      *tile = own_tile;
    } else {
      const Receiver::Fetched now = fetched;
      const Arrived unit_now = unit;
      uint32_t count = before;
      const uint32_t next = rank + 1 == parameters.rank ? rank + 2 : rank + 1;
      if (next < ranks) start(next);
      if (!receiver->Fetch(unit_now, t, now, &count, tile)) return false;
      if (LaneId() == receiver->LaneOf(rank)) *escapes = count;
    }
    if (rank == 0) {
      sums.Set(*tile);
    } else {
      sums.Add(*tile);
    }
  }
  sums.Round(tile);
  return true;
}

/// All units of a channel.
template <typename Element>
__device__ __forceinline__ bool ReduceChannel(const Parameters& parameters, Receiver* receiver,
                                              uint32_t channel) {
  const uint32_t peers = parameters.layout.ranks - 1;
  const Route& own = parameters.routes[parameters.rank];
  const uint32_t unit_bytes = UnitBytes(own.send_bytes, parameters.channels);
  const uint64_t units = UnitCount(own.send_bytes, unit_bytes);
  for (uint64_t unit = channel; unit < units; unit += parameters.channels) {
    const uint32_t bytes = LengthOfUnit(own.send_bytes, unit_bytes, unit);
    Arrived mine{};  // Lane l's: the unit of its peer.
    for (uint32_t lane = 0; lane < peers; ++lane) {
      Arrived arrived;
      if (!receiver->Wait(lane, bytes, unit, &arrived)) return false;
      if (LaneId() == lane) mine = arrived;
    }
    uint32_t escapes = 0;
    for (uint32_t t = 0; t * kTileBytes < bytes; ++t) {
      const uint64_t at = unit * unit_bytes + t * kTileBytes;
      const uint32_t left = bytes - t * kTileBytes;
      Tile tile;
      if (!ReduceTile<Element>(parameters, receiver, mine, own.send + at, left, t, &escapes,
                               &tile)) {
        receiver->ReportBroken(0, unit);
        return false;
      }
      receiver->StoreAny(tile, own.receive + at, left);
    }
    receiver->ReleaseAll();
  }
  return true;
}

}  // namespace cinch::fused
