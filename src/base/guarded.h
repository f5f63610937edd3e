// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <new>

#include "base/status.h"

namespace cinch {

/// What `call` returns. No exception crosses the C ABI; what can throw behind it is the allocator.
template <typename Call>
Status Guarded(Call&& call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return CINCH_ERROR_OUT_OF_MEMORY;
  } catch (...) {
    return CINCH_ERROR_INTERNAL;
  }
}

}  // namespace cinch
