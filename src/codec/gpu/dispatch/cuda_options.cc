// SPDX-License-Identifier: Apache-2.0
// The parts of cinch/cuda.h that need no device, and what builds without CUDA say to the rest.
#include "base/guarded.h"
#include "cinch/cuda.h"
#include "codec/gpu/dispatch/options.h"
#include "codec/gpu/kernels/batch.cuh"

using cinch::Guarded;
using cinch::GuardedOr;
using cinch::Status;

namespace {

/// Items and blocks are numbered in 32 bits.
constexpr uint64_t kMaxItems = uint64_t{1} << 31;
constexpr uint64_t kMaxInputBytes = (uint64_t{1} << 31) * cinch::format::kBlockBytes;

}  // namespace

extern "C" {

void cinch_cuda_options_init(cinch_cuda_options* options) {
  if (options != nullptr) {
    *options = {sizeof *options, nullptr, 0, 1, 0, nullptr, nullptr, nullptr, 0};
  }
}

uint64_t cinch_cuda_scratch_bytes(uint64_t max_items, uint64_t max_input_bytes) {
  return GuardedOr(uint64_t{0}, [&]() -> uint64_t {
    if (max_items == 0 || max_items > kMaxItems || max_input_bytes > kMaxInputBytes) return 0;
    cinch::codec::gpu::Scratch scratch;
    return cinch::codec::gpu::LayOutScratch(
        nullptr, max_items, cinch::codec::gpu::MaxUnits(max_items, max_input_bytes), &scratch);
  });
}

#if !CINCH_HAVE_CUDA

cinch_status cinch_cuda_scratch_init(const cinch_cuda_scratch*, void*) {
  return CINCH_ERROR_UNSUPPORTED;
}

cinch_status cinch_cuda_compress_batch(const cinch_cuda_options*, const cinch_cuda_item*, uint64_t,
                                       cinch_cuda_result*, const cinch_cuda_scratch*) {
  return CINCH_ERROR_UNSUPPORTED;
}

cinch_status cinch_cuda_decompress_batch(const cinch_cuda_options*, const cinch_cuda_item*,
                                         uint64_t, cinch_cuda_result*, const cinch_cuda_scratch*) {
  return CINCH_ERROR_UNSUPPORTED;
}

cinch_status cinch_cuda_measure(const cinch_cuda_options*, cinch_dtype, const void*, uint64_t,
                                uint64_t, uint32_t, cinch_cuda_speed*) {
  return CINCH_ERROR_UNSUPPORTED;
}

cinch_status cinch_cuda_content_hash(void*, const void*, uint64_t, uint64_t*) {
  return CINCH_ERROR_UNSUPPORTED;
}

#endif

cinch_status cinch_cuda_compress(const cinch_cuda_options* options, const cinch_cuda_item* item,
                                 cinch_cuda_result* result, const cinch_cuda_scratch* scratch) {
  return Guarded([&]() -> Status {
    cinch_cuda_options single;
    const cinch_status status = cinch::codec::gpu::ReadOptions(options, &single);
    if (status != CINCH_OK) return status;
    single.items_on_host = 1;
    return cinch_cuda_compress_batch(&single, item, 1, result, scratch);
  });
}

cinch_status cinch_cuda_decompress(const cinch_cuda_options* options, const cinch_cuda_item* item,
                                   cinch_cuda_result* result, const cinch_cuda_scratch* scratch) {
  return Guarded([&]() -> Status {
    cinch_cuda_options single;
    const cinch_status status = cinch::codec::gpu::ReadOptions(options, &single);
    if (status != CINCH_OK) return status;
    single.items_on_host = 1;
    return cinch_cuda_decompress_batch(&single, item, 1, result, scratch);
  });
}

}  // extern "C"
