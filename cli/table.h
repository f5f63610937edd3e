// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace cinch::cli {

/// Text in columns. The first column is set left, the others right.
class Table {
 public:
  explicit Table(std::vector<std::string> head) : rows_{std::move(head)} {}

  /// Cells beyond the head's are dropped, missing ones are empty.
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// A line between the rows before and after.
  void AddRule() { rules_.push_back(rows_.size()); }

  /// All lines, each with its newline. Control characters in cells become '?': names come from
  /// files, and a terminal obeys them.
  std::string Format() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> rules_;
};

/// The text with control characters replaced by '?'.
std::string Printable(const std::string& text);

}  // namespace cinch::cli
