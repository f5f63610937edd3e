// SPDX-License-Identifier: Apache-2.0
/// @file highway_targets.h
/// Which of Highway's targets we compile. Include before any header of Highway.
///
/// AVX3_DL (Ice Lake, Zen 4 and later) brings byte compress and expand, the heart of the codec.
/// AVX-512 without them would gain little over AVX2, and machines with SSE4 but no AVX2 are rare:
/// both take the next lower target, which saves half of the code size. SVE has vectors of unknown
/// length and is left to NEON.
#pragma once

#define HWY_WANT_AVX3_DL
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_SVE | HWY_SVE_256 | HWY_SVE2 | HWY_SVE2_128)

// Highway avoids its portable target under g++ before 12.3 for a bug in how that compiler
// vectorises the high half of a multiplication, which we do not use. The plain one that it would
// take instead lacks most operations.
#define HWY_BROKEN_EMU128 0
