// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "collectives/device.h"

namespace cinch::collectives {

inline constexpr uint64_t kPinnedPageBytes = 64 << 10;

/// Pages are used again for the same purpose only.
enum class PageUse { kHeaders, kKeyRecords, kStepRecords };

/// Pinned memory that outlives who uses it: freeing such memory waits for the whole device. Null
/// when there is none. A page holds zeroes, or what its last user left. Thread-safe.
[[nodiscard]] void* TakePinnedPage(Device* device, PageUse use);
void ReturnPinnedPage(Device* device, void* page, PageUse use);

}  // namespace cinch::collectives
