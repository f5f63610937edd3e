// SPDX-License-Identifier: Apache-2.0
// A library with every name of NCCL that only writes down how it was called. It takes what a caller
// may put into registers and the first two words of the stack, as no signature is known here.
#include "collectives/forward_double.h"

using cinch::testing::ForwardedCall;

namespace {

ForwardedCall last{};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT const ForwardedCall* forward_double_last() { return &last; }

// NOLINTBEGIN(readability-identifier-naming)
#define RECORD(name)                                                                           \
  EXPORT uint64_t name(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, \
                       double s, double t, double u, double v, double w, double x, double y,   \
                       double z, uint64_t g, uint64_t h) {                                     \
    last = {#name, {a, b, c, d, e, f}, {s, t, u, v, w, x, y, z}, {g, h}, last.calls + 1};      \
    return cinch::testing::kForwardedResult;                                                   \
  }
#define INTERCEPT(name) RECORD(nccl##name) RECORD(pnccl##name)
#define SETTLE(name) INTERCEPT(name)
#define SETTLE_ALL(name) SETTLE(name)
#define FORWARD(name) INTERCEPT(name)
#include "nccl/interposer/nccl_names.inc"
// NOLINTEND(readability-identifier-naming)
