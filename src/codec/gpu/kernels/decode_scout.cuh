// SPDX-License-Identifier: Apache-2.0
/// @file decode_scout.cuh
/// The warp that finds out what is to be decoded: several blocks at a time, a lane each, well
/// before they are needed.
#pragma once

#include <cstdint>

#include "codec/gpu/kernels/arrival.cuh"
#include "codec/gpu/kernels/decode_shared.cuh"
#include "codec/gpu/kernels/errors.cuh"
#include "codec/gpu/kernels/schedule.cuh"

namespace cinch::codec::gpu {

inline constexpr uint32_t kScoutNapNanoseconds = 200;

/// True when the padding behind the index, which the last block looks at, is not zero.
__device__ __forceinline__ bool HasIndexPadding(const PlanItem& item, uint32_t block) {
  if (block != item.blocks - 1) return false;
  const auto* index = reinterpret_cast<const uint32_t*>(item.input + sizeof(format::FrameHeader));
  uint32_t padding = 0;
  const uint64_t end = format::IndexBytes(item.blocks) / 4;
  for (uint64_t i = item.blocks; i < end; ++i) padding |= index[i];
  return padding != 0;
}

/// By one lane: reads the block's index entry. Every block checks its own, so that all blocks
/// together check the index as a decoder does that goes through it first.
__device__ __forceinline__ void ReadIndex(Errand* errand) {
  const PlanItem& item = errand->item;
  const uint32_t block = errand->unit.block;
  const auto* index = reinterpret_cast<const uint32_t*>(item.input + sizeof(format::FrameHeader));
  const uint32_t begin_units = block == 0 ? 0 : index[block - 1];
  const uint64_t begin_bytes = uint64_t{begin_units} * format::kPayloadUnitBytes;
  const uint64_t end_bytes = uint64_t{index[block]} * format::kPayloadUnitBytes;
  const uint64_t bytes = end_bytes - begin_bytes;
  uint64_t key = 0;
  if (item.status != CINCH_OK) {
    key = ErrorKey(ErrorRank::kDestination, block, item.status);
  } else if (bytes > format::kMaxBlockPayloadBytes) {
    key = ErrorKey(ErrorRank::kBlock, block, CINCH_ERROR_FRAME_BLOCK);
  }
  if (begin_bytes >= end_bytes || end_bytes > item.payload_bytes ||
      (block == item.blocks - 1 && end_bytes != item.payload_bytes)) {
    key = ErrorKey(ErrorRank::kIndex, block, CINCH_ERROR_FRAME_INDEX);
  } else if (HasIndexPadding(item, block)) {
    key = ErrorKey(ErrorRank::kPadding, block, CINCH_ERROR_FRAME_RESERVED);
  }
  errand->payload = item.input + format::PayloadOffset(item.blocks) + begin_bytes;
  errand->payload_bytes = static_cast<uint32_t>(bytes);
  errand->length_bytes = format::BlockLength(item.original_bytes, block);
  errand->output = item.output + uint64_t{block} * format::kBlockBytes;
  errand->error_key = key;
}

/// The same for a frame that is still arriving: waits for the index entry, and for the payload.
__device__ __forceinline__ void ReadArriving(const BatchParameters& batch, Errand* errand) {
  const Unit& unit = errand->unit;
  const PlanItem& item = errand->item;
  // The last block looks at the whole index's end.
  const uint64_t index_bytes = unit.block == item.blocks - 1 ? format::IndexBytes(item.blocks)
                                                             : uint64_t{4} * (unit.block + 1);
  if (!AwaitBytes(batch, unit.item, sizeof(format::FrameHeader) + index_bytes)) {
    errand->error_key = GiveUp(batch, unit.item, unit.block);
    return;
  }
  ReadIndex(errand);
  if (errand->error_key != 0) return;
  const auto end_bytes =
      static_cast<uint64_t>(errand->payload - item.input) + errand->payload_bytes;
  if (!AwaitBytes(batch, unit.item, end_bytes)) {
    errand->error_key = GiveUp(batch, unit.item, unit.block);
  }
}

/// The warp's memory of where it has been.
struct ScoutPlace {
  uint32_t item;
  uint32_t first_unit;
};

/// By one warp: fills `box` with the `count` units from `first` on.
__device__ __forceinline__ void WarpFindErrands(const BatchParameters& batch,
                                                const Schedule& schedule, uint32_t first,
                                                uint32_t count, ScoutPlace* place, ErrandBox* box) {
  const uint32_t lane = threadIdx.x % 32;
  const bool planned = batch.planned != 0;
  const uint32_t* first_unit = planned ? batch.scratch.first_unit : schedule.first_unit;
  // Every item has a unit at least, which bounds how far the next ticket's item can be.
  const uint64_t end = uint64_t{place->item} + (first - place->first_unit) + 1;
  place->item =
      WarpFindItem(first_unit, place->item,
                   end < batch.item_count ? static_cast<uint32_t>(end) : batch.item_count, first);
  const uint32_t nearby = place->item + lane;
  const uint32_t unit_of_nearby = nearby < batch.item_count ? first_unit[nearby] : 0xFFFFFFFF;
  place->first_unit = __shfl_sync(kAllLanes, unit_of_nearby, 0);
  uint32_t skipped = 0;
  for (uint32_t i = 1; i < count; ++i) {
    const uint32_t begun = __ballot_sync(kAllLanes, unit_of_nearby <= first + i);
    if (lane == i) skipped = CountOnes(begun) - 1;
  }
  const uint32_t own_first_unit = __shfl_sync(kAllLanes, unit_of_nearby, skipped);
  if (lane < count) {
    Errand* errand = &box->errands[lane];
    errand->unit = {place->item + skipped, first + lane - own_first_unit, own_first_unit};
    errand->item = (planned ? batch.scratch.plan : schedule.plan)[errand->unit.item];
    errand->error_key = 0;
    if (errand->item.blocks != 0) {
      batch.available_bytes == nullptr ? ReadIndex(errand) : ReadArriving(batch, errand);
    }
  }
  if (lane == 0) box->count = count;
}

/// How many units a ticket is for when those from `next` on are left: several when there are many,
/// one at the end, and one when blocks are to be done in order.
__device__ __forceinline__ uint32_t TicketUnits(const BatchParameters& batch, uint64_t total,
                                                uint64_t next) {
  const bool in_order = batch.progress != nullptr || batch.available_bytes != nullptr;
  if (in_order || next >= total) return 1;
  const auto fair = static_cast<uint32_t>((total - next) / (4 * uint64_t{gridDim.x}));
  return fair < 1 ? 1 : Minimum(fair, kMaxErrands);
}

/// By one thread: where a frame's index and payload will be needed first is not known before its
/// header is, but can be guessed, so that memory is not asked for one after the other. Touches
/// nothing but the item's input, and changes nothing.
__device__ __forceinline__ void PrefetchFirstBlock(const BatchParameters& batch) {
  if (batch.planned != 0 || batch.items != nullptr || batch.item_count != 1) return;
  const cinch_cuda_item& item = batch.inline_items[0];
  const uint64_t blocks = format::BlockCount(item.output_capacity_bytes);
  const uint64_t payload = format::PayloadOffset(blocks);
  if (item.input == nullptr || !IsAligned(item.input, format::kPayloadUnitBytes) ||
      blockIdx.x >= blocks || payload >= item.input_bytes) {
    return;
  }
  const uint64_t average = (item.input_bytes - payload) / blocks;
  const uint64_t begin = payload + average * blockIdx.x / 16 * 16;
  const uint64_t bytes = Minimum64(average, format::kMaxBlockPayloadBytes) / 16 * 16;
  if (bytes == 0) return;
  const auto* input = static_cast<const uint8_t*>(item.input);
  // Neither reaches beyond the input: average x (block + 1) <= its payload, and the index comes
  // first.
  PrefetchToL2(input + sizeof(format::FrameHeader) + uint64_t{4} * blockIdx.x / 16 * 16, 16);
  PrefetchToL2(input + begin, static_cast<uint32_t>(bytes));
}

/// All lanes of the scout, from the launch's start to its end.
__device__ __forceinline__ void WarpScout(const BatchParameters& batch, DecodeShared* shared) {
  const uint32_t lane = threadIdx.x % 32;
  Schedule* schedule = &shared->schedule;
  if (lane == 0) PrefetchFirstBlock(batch);
  const bool runs = WarpStartSchedule<false>(batch, schedule);
  const uint64_t total = runs ? schedule->total_units : 0;
  // The first ticket of every thread block is its number.
  uint32_t units = TicketUnits(batch, total, 0);
  const uint64_t given_units = uint64_t{units} * gridDim.x;
  uint64_t first = uint64_t{units} * blockIdx.x;
  ScoutPlace place{0, 0};
  for (uint32_t round = 0;; ++round) {
    ErrandBox* box = &shared->boxes[round % kErrandBoxes];
    if (round >= kErrandBoxes) {
      // In no hurry: a box full of errands is left.
      while (!HasEnded(SharedAddress(&shared->taken[round % kErrandBoxes]),
                       ParityOf(round - kErrandBoxes, kErrandBoxes))) {
        __nanosleep(kScoutNapNanoseconds);
      }
    }
    const bool more = first < total;
    if (more) {
      const uint64_t left = total - first;
      WarpFindErrands(batch, *schedule, static_cast<uint32_t>(first),
                      left < units ? static_cast<uint32_t>(left) : units, &place, box);
    } else if (lane == 0) {
      box->count = 0;
    }
    __syncwarp();
    if (lane == 0) Arrive(SharedAddress(&shared->posted[round % kErrandBoxes]));
    if (!more) return;
    units = TicketUnits(batch, total, first);
    uint32_t ticket = 0;
    if (lane == 0 && given_units < total) {
      ticket = atomicAdd(&batch.scratch.header->next_unit, units);
    }
    first = given_units + __shfl_sync(kAllLanes, ticket, 0);
  }
}

}  // namespace cinch::codec::gpu
