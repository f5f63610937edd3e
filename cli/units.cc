// SPDX-License-Identifier: Apache-2.0
#include "units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace cinch::cli {

std::string FormatBytes(uint64_t bytes) {
  constexpr std::array<const char*, 6> kUnits = {"kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) {
    return fmt::format("{} B", bytes);
  }
  double value = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  while (value >= 999.95 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string FormatSeconds(double seconds) {
  if (seconds >= 1) {
    return fmt::format("{:.2f} s", seconds);
  }
  if (seconds >= 1e-3) {
    return fmt::format("{:.1f} ms", seconds * 1e3);
  }
  return fmt::format("{:.1f} us", seconds * 1e6);
}

std::string FormatRemaining(double seconds) {
  const auto whole = static_cast<uint64_t>(std::llround(std::clamp(seconds, 0.0, 3.6e8)));
  if (whole < 60) {
    return fmt::format("{} s", whole);
  }
  if (whole < 3600) {
    return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  }
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::optional<uint64_t> ParseSize(std::string_view text) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || value == 0) {
    return std::nullopt;
  }
  std::string_view suffix(rest, static_cast<size_t>(end - rest));
  if (suffix.size() == 3 && suffix.substr(1) == "iB") {
    suffix = suffix.substr(0, 1);
  }
  if (suffix.empty()) {
    return value;
  }
  const size_t power = std::string_view("KMGT").find(suffix);
  if (suffix.size() != 1 || power == std::string_view::npos) {
    return std::nullopt;
  }
  const unsigned shift = 10 * (static_cast<unsigned>(power) + 1);
  if (value > std::numeric_limits<uint64_t>::max() >> shift) {
    return std::nullopt;
  }
  return value << shift;
}

std::vector<uint64_t> ParseSizes(std::string_view text) {
  std::vector<uint64_t> sizes;
  while (true) {
    const size_t comma = text.find(',');
    const std::optional<uint64_t> size = ParseSize(text.substr(0, comma));
    if (!size) {
      return {};
    }
    sizes.push_back(*size);
    if (comma == std::string_view::npos) {
      return sizes;
    }
    text.remove_prefix(comma + 1);
  }
}

double GigabytesPerSecond(uint64_t bytes, double seconds) {
  return seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0;
}

double GigabitsPerSecond(uint64_t bytes, double seconds) {
  return 8 * GigabytesPerSecond(bytes, seconds);
}

double Median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace cinch::cli
