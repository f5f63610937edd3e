// SPDX-License-Identifier: Apache-2.0
/// @file progress.cuh
/// Publishing how many blocks of an item are complete, in order, while blocks are completed in any
/// order.
///
/// Every thread block marks its block complete and then tries to become the item's one publisher,
/// who counts on from the last published block as far as the marks go. One that finds the place
/// taken goes on at once: the publisher looks at the marks again after it has left the place. (Mark
/// then try, leave then look, with a sequentially consistent fence between: one of the two sees the
/// other.)
#pragma once

#include <cstdint>

#include "codec/gpu/kernels/batch.cuh"
#include "codec/gpu/kernels/look_back.cuh"
#include "codec/gpu/warp/memory.cuh"

namespace cinch::codec::gpu {

__device__ __forceinline__ bool IsComplete(uint64_t word, uint32_t epoch) {
  return (word >> kEpochShift) == epoch && ((word >> kCompleteShift) & 1) != 0;
}

/// By one thread, after all of the block's output is written and a barrier of the thread block.
/// `states` are the item's. A counter that is seen by any observer is followed by the output it
/// stands for: the system-scope fence before the mark pairs with the observer's acquire.
__device__ __forceinline__ void PublishBlock(const PlanItem& item, uint32_t block, uint32_t epoch,
                                             uint64_t* states, ItemState* state,
                                             uint64_t* progress) {
  __threadfence_system();
  const uint64_t word = LoadRelaxed(states + block);
  const uint64_t mine =
      (word >> kEpochShift) == epoch ? word : StateWord(epoch, BlockStage::kNone, 0);
  StoreRelaxed(states + block, mine | (uint64_t{1} << kCompleteShift));
  bool more = true;
  while (more) {
    __threadfence();
    if (atomicExch(&state->publisher, 1) != 0) return;
    __threadfence();
    uint32_t published = LoadRelaxed(&state->published_blocks);
    const uint32_t before = published;
    while (published < item.blocks && IsComplete(LoadRelaxed(states + published), epoch)) {
      ++published;
    }
    if (published != before) {
      StoreRelaxed(&state->published_blocks, published);
      __threadfence_system();
      StoreRelaxedSystem(progress, published);
    }
    __threadfence();
    atomicExch(&state->publisher, 0);
    __threadfence();
    more = published < item.blocks && IsComplete(LoadRelaxed(states + published), epoch);
  }
}

}  // namespace cinch::codec::gpu
