// SPDX-License-Identifier: Apache-2.0
#include "strict_json.h"

#include <algorithm>
#include <vector>

namespace cinch::cli {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

struct Structure {
  size_t depth = 0;
  size_t containers = 0;
  size_t members = 0;  ///< Of all objects.
};

/// Counts without building anything. Up to the first place that is not JSON, this and the parser
/// agree on what is a string; beyond it the parser does not read.
Structure Measure(std::string_view text) {
  Structure found;
  size_t depth = 0;
  bool in_string = false;
  bool is_escaped = false;
  for (const char character : text) {
    if (in_string) {
      in_string = is_escaped || character != '"';
      is_escaped = !is_escaped && character == '\\';
    } else if (character == '"') {
      in_string = true;
    } else if (character == '[' || character == '{') {
      ++found.containers;
      ++depth;
      found.depth = std::max(found.depth, depth);
    } else if ((character == ']' || character == '}') && depth > 0) {
      --depth;
    } else if (character == ':') {
      ++found.members;
    }
  }
  return found;
}

size_t CountMembers(const Json& root) {
  size_t members = 0;
  std::vector<const Json*> left = {&root};
  while (!left.empty()) {
    const Json& value = *left.back();
    left.pop_back();
    members += value.is_object() ? value.size() : 0;
    for (const Json& part : value) {
      if (part.is_structured()) {
        left.push_back(&part);
      }
    }
  }
  return members;
}

}  // namespace

Json ParseStrictJson(std::string_view text, const JsonLimits& limits) {
  const Json refused(Json::value_t::discarded);
  const Structure found = Measure(text);
  if (text.starts_with(kByteOrderMark) || text.find('\0') != std::string_view::npos ||
      found.depth > limits.depth || found.containers > limits.containers) {
    return refused;
  }
  // Of two equal keys, an object keeps one. (The parser's callback would tell too, but costs the
  // square of an array's size.)
  Json root = Json::parse(text.begin(), text.end(), nullptr, false);
  return root.is_discarded() || CountMembers(root) != found.members ? refused : root;
}

}  // namespace cinch::cli
