// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cinch::testing {

/// A call as it arrived behind the interposer.
struct ForwardedCall {
  const char* name;
  uint64_t integers[6];  ///< The registers of integers and pointers, in their order.
  double doubles[8];
  uint64_t stack[2];
  uint64_t calls;  ///< All so far.
};

/// What each function returns: an error of NCCL's to those who look at 32 bits of it, and more than
/// that, as some functions return pointers.
inline constexpr uint64_t kForwardedResult = 0x123456700000006;

}  // namespace cinch::testing
