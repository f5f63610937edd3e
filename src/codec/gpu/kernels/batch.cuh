// SPDX-License-Identifier: Apache-2.0
/// @file batch.cuh
/// What a launch works on: items, their plans, and the scratch memory's layout. Host and device.
#pragma once

#include <cstdint>

#include "cinch/cuda.h"
#include "codec/gpu/warp/portable.cuh"
#include "format/layout.h"

namespace cinch::codec::gpu {

/// Batches of up to so many items are planned by each thread block itself, a lane an item: one
/// launch instead of three.
inline constexpr uint32_t kInlineItems = 16;
/// Items that one launch carries to the device in its parameters.
inline constexpr uint32_t kUploadItems = 64;
/// Items that one thread block of the planning kernels takes.
inline constexpr uint32_t kPlanThreads = 256;

/// How long a frame's next bytes are waited for when the caller does not say.
inline constexpr uint64_t kArrivalTimeoutNanoseconds = 20'000'000'000;

/// An item, checked. Everything the coding kernels know of it: an untrusted header is read once.
struct PlanItem {
  const uint8_t* input;
  uint8_t* output;
  uint64_t input_bytes;
  uint64_t capacity_bytes;
  uint64_t original_bytes;
  uint64_t payload_bytes;  ///< Decoding: what the header says.
  uint64_t content_hash;   ///< Decoding: what the header says. Encoding a delta: the base's.
  const uint8_t* base;     ///< What the bytes are coded relative to; null for nothing.
  uint32_t dtype;
  int32_t status;  ///< Not OK: what the item gets; with blocks, these are only looked at.
  uint32_t blocks;
  uint32_t checksum;  ///< 0 or 1.

  /// An item without blocks still needs a thread block to say what became of it.
  CINCH_PORTABLE uint32_t units() const { return blocks == 0 ? 1 : blocks; }
};
static_assert(sizeof(PlanItem) == 80);

/// What the blocks of an item add up while they run. All zero between launches: who finishes an
/// item's last block clears it.
struct ItemState {
  uint64_t hash_sum;
  uint64_t error_key;  ///< The gravest error so far (errors.cuh), 0 for none.
  uint32_t finished_blocks;
  uint32_t total_units;  ///< Of the payload; set with the last block.
  uint32_t published_blocks;
  uint32_t publisher;  ///< 1 while a thread publishes.
};
static_assert(sizeof(ItemState) == 32);

/// The start of the scratch memory.
struct ScratchHeader {
  uint64_t magic;  ///< kScratchMagic once prepared.
  uint64_t max_items;
  uint64_t max_units;
  uint64_t total_units;  ///< Of the batch that is planned.
  uint32_t epoch;        ///< Tells this launch's block states from older ones; from 1.
  uint32_t next_unit;    ///< The ticket counter; 0 between launches.
  uint32_t exited_ctas;  ///< 0 between launches.
  uint32_t reserved[21];
};
static_assert(sizeof(ScratchHeader) == 128);

inline constexpr uint64_t kScratchMagic = 0x3148435441524353;  // "SCRATCH1"

/// Where the parts of the scratch memory are.
struct Scratch {
  ScratchHeader* header;
  uint64_t* chunk_units;   ///< Units of each kPlanThreads items.
  ItemState* states;       ///< Of each item.
  PlanItem* plan;          ///< Of each item.
  cinch_cuda_item* items;  ///< Uploaded from the host.
  cinch_base* bases;       ///< Theirs, the same.
  uint32_t* first_unit;    ///< Of each item, and of one past the last.
  uint64_t* block_states;  ///< Of each unit (look_back.cuh).
  uint64_t max_items;
  uint64_t max_units;
};

CINCH_PORTABLE uint64_t MaxUnits(uint64_t max_items, uint64_t max_input_bytes) {
  return max_input_bytes / format::kBlockBytes + max_items;
}

/// Lays the parts out from `memory` on; returns where they end. `memory` may be null to measure.
inline uint64_t LayOutScratch(uint8_t* memory, uint64_t max_items, uint64_t max_units,
                              Scratch* scratch) {
  uint64_t at = 0;
  const auto take = [&](uint64_t bytes) {
    uint8_t* part = memory + at;
    at += format::AlignUp(bytes, 128);
    return part;
  };
  scratch->header = reinterpret_cast<ScratchHeader*>(take(sizeof(ScratchHeader)));
  const uint64_t chunks = format::CeilDivide(max_items, kPlanThreads);
  scratch->chunk_units = reinterpret_cast<uint64_t*>(take(8 * chunks));
  scratch->states = reinterpret_cast<ItemState*>(take(sizeof(ItemState) * max_items));
  scratch->plan = reinterpret_cast<PlanItem*>(take(sizeof(PlanItem) * max_items));
  scratch->items = reinterpret_cast<cinch_cuda_item*>(take(sizeof(cinch_cuda_item) * max_items));
  scratch->bases = reinterpret_cast<cinch_base*>(take(sizeof(cinch_base) * max_items));
  scratch->first_unit = reinterpret_cast<uint32_t*>(take(4 * (max_items + 1)));
  scratch->block_states = reinterpret_cast<uint64_t*>(take(8 * max_units));
  scratch->max_items = max_items;
  scratch->max_units = max_units;
  return at;
}

/// The parameters of a coding kernel.
struct BatchParameters {
  Scratch scratch;
  const cinch_cuda_item* items;  ///< On the device; null when they are in `inline_items`.
  cinch_cuda_result* results;
  uint64_t* progress;               ///< Null when nobody asked.
  const uint64_t* available_bytes;  ///< Of each item's frame; null when all are complete.
  uint64_t available_timeout_ns;
  uint32_t item_count;
  uint32_t checksum;
  uint32_t planned;         ///< 1 when the plan is in the scratch memory.
  uint32_t has_bases;       ///< 0 or 1: what follows counts.
  const cinch_base* bases;  ///< On the device; null when they are in `inline_bases`.
  cinch_cuda_item inline_items[kInlineItems];
  cinch_base inline_bases[kInlineItems];

  CINCH_PORTABLE cinch_cuda_item ItemAt(uint32_t i) const {
    return items != nullptr ? items[i] : inline_items[i];
  }
  CINCH_PORTABLE cinch_base BaseAt(uint32_t i) const {
    if (has_bases == 0) return {nullptr, 0, 0, 1};
    return bases != nullptr ? bases[i] : inline_bases[i];
  }
};
static_assert(sizeof(BatchParameters) <= 4096);

}  // namespace cinch::codec::gpu
