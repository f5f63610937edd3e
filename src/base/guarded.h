// SPDX-License-Identifier: Apache-2.0
/// @file guarded.h
/// The one way into the library from C: what an entry of the C ABI does, it does inside Guarded or
/// GuardedOr, unless it calls nothing that could throw. scripts/lint_rules.py checks it.
#pragma once

#include <cxxabi.h>

#include <new>
#include <type_traits>
#include <utility>

#include "base/status.h"

namespace cinch {

/// What `call` returns, a Status or nothing. No exception crosses the C ABI: a failed allocation
/// is OUT_OF_MEMORY, whatever else is thrown is INTERNAL, and of a call that returns nothing it is
/// dropped. A thread that is being cancelled or has called pthread_exit in a callback of the
/// application unwinds through here: glibc ends the process if that is caught. There is no object
/// of that type, only a reference to nothing, which UBSan is not to look at. (In this form the
/// attribute is understood by clang, too.)
template <typename Call>
__attribute__((no_sanitize("null", "alignment"))) auto Guarded(Call&& call)
    -> std::invoke_result_t<Call> {
  using Result = std::invoke_result_t<Call>;
  static_assert(std::is_same_v<Result, Status> || std::is_void_v<Result>);
  try {
    return std::forward<Call>(call)();
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (const std::bad_alloc&) {
    if constexpr (!std::is_void_v<Result>) return CINCH_ERROR_OUT_OF_MEMORY;
  } catch (...) {
    if constexpr (!std::is_void_v<Result>) return CINCH_ERROR_INTERNAL;
  }
}

/// For entries that return something else: `otherwise` if anything was thrown.
template <typename Value, typename Call>
Value GuardedOr(Value otherwise, Call&& call) {
  Guarded([&]() -> void { otherwise = std::forward<Call>(call)(); });
  return otherwise;
}

}  // namespace cinch
