// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cinch {

/// How many fork() calls lie between this process and the one that asked first. What was made with
/// another count belongs to a parent: its threads are not here and its locks may be held for ever.
/// Cheap. Thread-safe.
[[nodiscard]] uint32_t ForkCount();

}  // namespace cinch
