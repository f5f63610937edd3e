// SPDX-License-Identifier: Apache-2.0
#include "strict_json.h"

#include <vector>

namespace cinch::cli {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// Counts without building anything. Up to the first place that is not JSON, this and the parser
/// agree on what is a string; beyond it the parser does not read.
bool IsWithin(std::string_view text, const JsonLimits& limits) {
  size_t depth = 0;
  size_t containers = 0;
  bool in_string = false;
  bool is_escaped = false;
  for (const char character : text) {
    if (in_string) {
      in_string = is_escaped || character != '"';
      is_escaped = !is_escaped && character == '\\';
    } else if (character == '"') {
      in_string = true;
    } else if (character == '[' || character == '{') {
      ++containers;
      ++depth;
      if (depth > limits.depth || containers > limits.containers) {
        return false;
      }
    } else if ((character == ']' || character == '}') && depth > 0) {
      --depth;
    }
  }
  return true;
}

}  // namespace

Json ParseStrictJson(std::string_view text, const JsonLimits& limits) {
  const Json refused(Json::value_t::discarded);
  if (text.starts_with(kByteOrderMark) || text.find('\0') != std::string_view::npos ||
      !IsWithin(text, limits)) {
    return refused;
  }
  // An object keeps one of two equal keys, and is smaller than the number of keys read then.
  std::vector<size_t> keys_read;
  bool has_twins = false;
  const auto on_event = [&](int, Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::object_start) {
      keys_read.push_back(0);
    } else if (event == Json::parse_event_t::key) {
      ++keys_read.back();
    } else if (event == Json::parse_event_t::object_end) {
      has_twins = has_twins || parsed.size() != keys_read.back();
      keys_read.pop_back();
    }
    return true;
  };
  Json root = Json::parse(text.begin(), text.end(), on_event, false);
  return has_twins ? refused : root;
}

}  // namespace cinch::cli
