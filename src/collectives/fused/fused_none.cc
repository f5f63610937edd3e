// SPDX-License-Identifier: Apache-2.0
/// cinch/fused.h in builds without CUDA.
#include "cinch/fused.h"

extern "C" {

void cinch_fused_options_init(cinch_fused_options* options) {
  if (options == nullptr) return;
  *options = {};
  options->struct_size = sizeof *options;
}

cinch_status cinch_fused_create(const cinch_fused_options*, cinch_fused**) {
  return CINCH_ERROR_UNSUPPORTED;
}

void cinch_fused_destroy(cinch_fused*) {}

void cinch_fused_abort(cinch_fused*) {}

cinch_status cinch_fused_check(cinch_fused*, cinch_fused_report*) {
  return CINCH_ERROR_UNSUPPORTED;
}

cinch_status cinch_fused_all_gather(cinch_fused*, const void*, void*, uint64_t, cinch_dtype,
                                    void*) {
  return CINCH_ERROR_UNSUPPORTED;
}

cinch_status cinch_fused_broadcast(cinch_fused*, void*, uint64_t, uint32_t, cinch_dtype, void*) {
  return CINCH_ERROR_UNSUPPORTED;
}

cinch_status cinch_fused_all_to_all(cinch_fused*, const void*, void*, uint64_t, cinch_dtype,
                                    void*) {
  return CINCH_ERROR_UNSUPPORTED;
}

cinch_status cinch_fused_exchange(cinch_fused*, const cinch_fused_part*, cinch_dtype, void*) {
  return CINCH_ERROR_UNSUPPORTED;
}

cinch_status cinch_fused_send(cinch_fused*, const void*, uint64_t, uint32_t, cinch_dtype, void*) {
  return CINCH_ERROR_UNSUPPORTED;
}

cinch_status cinch_fused_receive(cinch_fused*, void*, uint64_t, uint32_t, cinch_dtype, void*) {
  return CINCH_ERROR_UNSUPPORTED;
}

cinch_status cinch_fused_reduce_scatter(cinch_fused*, const void*, void*, uint64_t, cinch_dtype,
                                        void*) {
  return CINCH_ERROR_UNSUPPORTED;
}

cinch_status cinch_fused_all_reduce(cinch_fused*, const void*, void*, uint64_t, cinch_dtype,
                                    void*) {
  return CINCH_ERROR_UNSUPPORTED;
}

}  // extern "C"
