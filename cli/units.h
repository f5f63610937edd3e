// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cinch::cli {

/// "268.4 MB": decimal units, as rates are counted in 10^9 bytes or bits a second.
std::string FormatBytes(uint64_t bytes);

/// "1.3 s", "350 ms", "12 us".
std::string FormatSeconds(double seconds);

/// "2 min 05 s", "9 s": for what is left of a long run.
std::string FormatRemaining(double seconds);

/// A positive byte count with an optional binary suffix K, M, G or T (also KiB, MiB, ...).
std::optional<uint64_t> ParseSize(std::string_view text);

/// Several of them, separated by commas. Empty when one is not valid.
std::vector<uint64_t> ParseSizes(std::string_view text);

/// bytes / seconds in 10^9 bytes a second; 0 when no time has passed.
double GigabytesPerSecond(uint64_t bytes, double seconds);

/// bytes / seconds in 10^9 bits a second; 0 when no time has passed.
double GigabitsPerSecond(uint64_t bytes, double seconds);

/// The middle value, or the mean of the two middle ones; 0 when there is none.
double Median(std::vector<double> values);

}  // namespace cinch::cli
