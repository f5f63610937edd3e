// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace cinch {

/// Ordered: a level lets itself and everything above it through. The values are CINCH_LOG's.
enum class LogLevel { kOff, kError, kWarn, kInfo, kDebug };

/// Replaces the level that CINCH_LOG asked for. Thread-safe.
void SetLogLevel(LogLevel level);

/// The level in force; the first use reads the configuration. Thread-safe.
[[nodiscard]] LogLevel CurrentLogLevel();

[[nodiscard]] inline bool LogEnabled(LogLevel level) { return level <= CurrentLogLevel(); }

/// Writes one line to standard error, whatever the level in force. Thread-safe, never throws.
void WriteLog(LogLevel level, std::string_view message) noexcept;

/// Formats and writes `arguments` when `level` is let through. A message that cannot be formatted
/// (no memory) is dropped: logging never fails the operation that logs.
template <typename... Arguments>
void Log(LogLevel level, fmt::format_string<Arguments...> format,
         Arguments&&... arguments) noexcept {
  if (!LogEnabled(level)) return;
  try {
    WriteLog(level, fmt::format(format, std::forward<Arguments>(arguments)...));
  } catch (...) {
  }
}

}  // namespace cinch
