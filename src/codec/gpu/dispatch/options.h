// SPDX-License-Identifier: Apache-2.0
/// @file options.h
/// Options as callers of any age pass them.
#pragma once

#include <cstddef>
#include <cstring>

#include "cinch/cuda.h"

namespace cinch::codec::gpu {

/// A caller's options, with the defaults of members that its header did not have. INVALID_ARGUMENT
/// for null and for a size that no header has had.
inline cinch_status ReadOptions(const cinch_cuda_options* options, cinch_cuda_options* own) {
  constexpr size_t kOldSizes[] = {offsetof(cinch_cuda_options, bases),
                                  offsetof(cinch_cuda_options, available_bytes)};
  if (options == nullptr ||
      (options->struct_size != sizeof *own && options->struct_size != kOldSizes[0] &&
       options->struct_size != kOldSizes[1])) {
    return CINCH_ERROR_INVALID_ARGUMENT;
  }
  cinch_cuda_options_init(own);
  std::memcpy(own, options, options->struct_size);
  own->struct_size = sizeof *own;
  return CINCH_OK;
}

}  // namespace cinch::codec::gpu
