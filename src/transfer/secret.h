// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"

namespace cinch::transfer {

inline constexpr size_t kMacBytes = 32;
using Mac = std::array<uint8_t, kMacBytes>;

/// Fills `bytes` from the operating system's generator.
/// OK, INTERNAL (there is no randomness).
[[nodiscard]] Status RandomBytes(std::span<uint8_t> bytes);

/// HMAC-SHA256 of the parts one after another, each preceded by its length, so that no two lists
/// of parts look alike. OK, INTERNAL.
[[nodiscard]] Status ComputeMac(std::string_view key,
                                std::span<const std::span<const uint8_t>> parts, Mac& mac);

/// Compares in a time that does not depend on where the difference is.
[[nodiscard]] bool EqualMacs(const Mac& left, const Mac& right);

}  // namespace cinch::transfer
