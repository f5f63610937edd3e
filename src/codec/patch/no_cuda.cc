// SPDX-License-Identifier: Apache-2.0
// What builds without CUDA say of patches of device memory.
#include "cinch/patch.h"

uint64_t cinch_cuda_patch_scratch_bytes(uint64_t /*original_bytes*/) { return 0; }

cinch_status cinch_cuda_patch_create(const void*, const void*, uint64_t, void*, uint64_t,
                                     cinch_cuda_patch_result*, void*, void*) {
  return CINCH_ERROR_UNSUPPORTED;
}

cinch_status cinch_cuda_patch_apply(const void*, uint64_t, const void*, uint64_t, void*, uint64_t,
                                    cinch_cuda_patch_result*, void*, void*) {
  return CINCH_ERROR_UNSUPPORTED;
}
