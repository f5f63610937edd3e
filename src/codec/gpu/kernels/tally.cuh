// SPDX-License-Identifier: Apache-2.0
/// @file tally.cuh
/// What a thread block adds to an item's state. Blocks of one item come one after another, so that
/// one thread adds them up first and pays for atomics and fences once an item.
#pragma once

#include <cstdint>

#include "codec/gpu/kernels/batch.cuh"
#include "codec/gpu/kernels/errors.cuh"
#include "codec/gpu/kernels/schedule.cuh"

namespace cinch::codec::gpu {

/// What became of an item, once all its blocks are done.
struct ItemOutcome {
  int32_t status;
  uint64_t hash_sum;
  uint32_t total_units;  ///< Compression.
};

/// In one thread's registers.
class Tally {
 public:
  __device__ __forceinline__ void Add(uint64_t error_key, uint64_t hash) {
    ++blocks_;
    hash_sum_ += hash;
    if (error_key > error_key_) error_key_ = error_key;
  }

  /// Adds what was counted to the item's state, after a barrier behind the blocks' output. True for
  /// who brings the last block; `*outcome` is then the item's, whose state is cleared.
  __device__ __forceinline__ bool Flush(const PlanItem& item, ItemState* state,
                                        ItemOutcome* outcome) {
    if (hash_sum_ != 0) {
      atomicAdd(reinterpret_cast<unsigned long long*>(&state->hash_sum),
                static_cast<unsigned long long>(hash_sum_));
    }
    if (error_key_ != 0) {
      atomicMax(reinterpret_cast<unsigned long long*>(&state->error_key),
                static_cast<unsigned long long>(error_key_));
    }
    const uint32_t blocks = blocks_;
    *this = {};
    // Pairs with the same fence of who comes last: what all blocks wrote and added is then there.
    __threadfence();
    if (atomicAdd(&state->finished_blocks, blocks) != item.blocks - blocks) return false;
    __threadfence();
    const uint64_t key = LoadRelaxed(&state->error_key);
    *outcome = {key == 0 ? CINCH_OK : StatusOfKey(key), LoadRelaxed(&state->hash_sum),
                LoadRelaxed(&state->total_units)};
    *state = {};
    return true;
  }

  /// Whether an item's blocks have all been counted here, so that its state need not be touched.
  __device__ __forceinline__ bool IsAllOf(const PlanItem& item) const {
    return blocks_ == item.blocks;
  }
  /// What was counted, instead of Flush. True.
  __device__ __forceinline__ bool Take(ItemOutcome* outcome) {
    *outcome = {error_key_ == 0 ? CINCH_OK : StatusOfKey(error_key_), hash_sum_, 0};
    *this = {};
    return true;
  }

 private:
  uint64_t hash_sum_ = 0;
  uint64_t error_key_ = 0;
  uint32_t blocks_ = 0;
};

}  // namespace cinch::codec::gpu
