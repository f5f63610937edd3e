// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace cinch {

/// The whole of `text` as a decimal number without sign, blanks or overflow.
[[nodiscard]] std::optional<uint64_t> ParseUnsigned(std::string_view text);

/// The whole of `text` as a finite decimal number.
[[nodiscard]] std::optional<double> ParseNumber(std::string_view text);

/// A byte count: a decimal number with an optional binary suffix K, M, G or T (also KiB, MiB, ...).
[[nodiscard]] std::optional<uint64_t> ParseBytes(std::string_view text);

/// How many characters must be inserted, dropped or replaced to turn one text into the other.
[[nodiscard]] size_t EditDistance(std::string_view left, std::string_view right);

}  // namespace cinch
