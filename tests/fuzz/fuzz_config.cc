// SPDX-License-Identifier: Apache-2.0
// Any environment gives a configuration whose values print and read back, and a bad value is named.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/config.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

/// One NAME=VALUE a line.
cinch::ConfigVariables Variables(std::string_view text) {
  cinch::ConfigVariables variables;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t equals = std::min(line.find('='), line.size());
    const std::string_view value = line.substr(std::min(line.size(), equals + 1));
    variables.emplace_back(line.substr(0, equals), value);
  }
  return variables;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  const auto variables = Variables({reinterpret_cast<const char*>(data), size_bytes});
  const cinch::ConfigReading reading = cinch::ReadConfig(variables);
  Require(reading.problems.size() <= variables.size());
  for (const cinch::ConfigField& field : cinch::ConfigFields()) {
    const std::string printed = field.print(reading.config);
    cinch::Config again;
    Require(printed.empty() || field.parse(printed, again));
    Require(field.print(again) == printed);
  }
  return 0;
}
