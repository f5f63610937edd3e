// SPDX-License-Identifier: Apache-2.0
#include "base/config.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <mutex>

#include "base/log_level_state.h"
#include "base/text.h"

namespace cinch {
namespace {

constexpr std::string_view kPrefix = "CINCH_";

ConfigVariables Environment() {
  ConfigVariables variables;
  for (char** line = environ; line != nullptr && *line != nullptr; ++line) {
    const std::string_view text = *line;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || !text.starts_with(kPrefix)) continue;
    variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

std::string DescribeUnknownName(std::string_view name) {
  const auto fields = ConfigFields();
  const auto distance = [&](const ConfigField& field) { return EditDistance(name, field.name); };
  const auto nearest = std::ranges::min_element(fields, {}, distance);
  // Farther than this and the suggestion would be a guess.
  constexpr size_t kMaxDistance = 4;
  if (distance(*nearest) > kMaxDistance) return fmt::format("{} is not a setting of cinch", name);
  return fmt::format("{} is not a setting of cinch; did you mean {}?", name, nearest->name);
}

void ReadVariable(const std::string& name, const std::string& value, ConfigReading& reading) {
  const auto fields = ConfigFields();
  const auto field = std::ranges::find(fields, std::string_view(name), [](const ConfigField& each) {
    return std::string_view(each.name);
  });
  if (field == fields.end()) {
    reading.problems.push_back({CINCH_OK, DescribeUnknownName(name)});
    return;
  }
  if (value.empty()) return;
  if (field->parse(value, reading.config)) {
    reading.is_set[static_cast<size_t>(std::distance(fields.begin(), field))] = true;
    return;
  }
  const std::string shown = field->secret ? "its value" : "\"" + value + "\"";
  reading.problems.push_back(
      {CINCH_ERROR_CONFIG, fmt::format("{}: {} is not one of {}", name, shown, field->type)});
}

void ReportProblems(const ConfigReading& reading) {
  for (const ConfigProblem& problem : reading.problems) {
    const bool bad_value = problem.status != CINCH_OK;
    Log(bad_value ? LogLevel::kError : LogLevel::kWarn, "{}", problem.message);
  }
}

}  // namespace

ConfigReading ReadConfig(const ConfigVariables& variables) {
  ConfigReading reading;
  reading.is_set.resize(ConfigFields().size());
  for (const auto& [name, value] : variables) {
    if (name.starts_with(kPrefix)) ReadVariable(name, value, reading);
  }
  return reading;
}

const ConfigReading& ProcessConfigReading() {
  // Never destroyed, so that what runs at exit can still read it.
  static const ConfigReading* const reading = new ConfigReading(ReadConfig(Environment()));
  static std::once_flag reported;
  std::call_once(reported, [] {
    // First, so that reporting does not come back here for the level.
    InitializeLogLevel(reading->config.log_level);
    ReportProblems(*reading);
  });
  return *reading;
}

const Config& ProcessConfig() { return ProcessConfigReading().config; }

Status ProcessConfigStatus() {
  for (const ConfigProblem& problem : ProcessConfigReading().problems) {
    if (problem.status != CINCH_OK) return problem.status;
  }
  return CINCH_OK;
}

std::string ConfigDocumentation() {
  std::string text =
      "# Configuration\n\n"
      "<!-- Generated from src/base/config_fields.cc by `cmake --build --preset dev --target "
      "docs`. "
      "-->\n\n"
      "cinch reads these environment variables once, when it is first used. Options given to a "
      "handle or to the\ncommand line tool win over them. An empty value means unset. A value that "
      "is not one of those listed makes\nthe creation of handles fail with `CINCH_ERROR_CONFIG`, "
      "and the log names it; a `CINCH_` name that is not in\nthe list is reported with the nearest "
      "one that is. `cinch info` prints what is in force, and\n`cinch/config.h` gives it to "
      "programs.\n\n"
      "| Name | Values | Default | Meaning |\n|---|---|---|---|\n";
  const Config defaults;
  for (const ConfigField& field : ConfigFields()) {
    std::string type = field.type;
    for (size_t at = 0; (at = type.find('|', at)) != std::string::npos; at += 2) {
      type.insert(at, "\\");
    }
    const std::string value = field.print(defaults);
    text += fmt::format("| `{}` | {} | {} | {} |\n", field.name, type,
                        value.empty() ? "none" : "`" + value + "`", field.description);
  }
  return text;
}

}  // namespace cinch
