// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

namespace cinch::cli {

/// How much structure a text from a stranger may have. A parsed value takes far more memory than
/// the one or two characters that ask for it.
struct JsonLimits {
  size_t depth = 0;       ///< Objects and arrays within one another, the outermost included.
  size_t containers = 0;  ///< Objects and arrays altogether.
};

/// Parses what somebody else wrote: a discarded value for anything but valid JSON within `limits`,
/// and for what the parser would let pass: a byte order mark, what follows a NUL byte, and keys
/// that an object has twice.
nlohmann::json ParseStrictJson(std::string_view text, const JsonLimits& limits);

}  // namespace cinch::cli
