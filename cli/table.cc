// SPDX-License-Identifier: Apache-2.0
#include "table.h"

#include <algorithm>

namespace cinch::cli {
namespace {

/// Columns a text takes on a terminal, near enough: UTF-8 continuation bytes take none.
size_t Width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char character) {
    return (static_cast<unsigned char>(character) & 0xC0U) != 0x80U;
  }));
}

}  // namespace

std::string Printable(const std::string& text) {
  std::string result = text;
  for (char& character : result) {
    const auto value = static_cast<unsigned char>(character);
    if (value < 0x20 || value == 0x7F) {
      character = '?';
    }
  }
  return result;
}

std::string Table::Format() const {
  const size_t columns = rows_.front().size();
  std::vector<size_t> widths(columns, 0);
  for (const std::vector<std::string>& row : rows_) {
    for (size_t column = 0; column < std::min(columns, row.size()); ++column) {
      widths[column] = std::max(widths[column], Width(row[column]));
    }
  }
  size_t total = 2 * (columns - 1);
  for (const size_t width : widths) {
    total += width;
  }
  std::string text;
  for (size_t index = 0; index < rows_.size(); ++index) {
    if (index == 1 || std::count(rules_.begin(), rules_.end(), index) > 0) {
      text += std::string(total, '-') + '\n';
    }
    std::string line;
    for (size_t column = 0; column < columns; ++column) {
      const std::string cell =
          column < rows_[index].size() ? Printable(rows_[index][column]) : std::string();
      const std::string padding(widths[column] - Width(cell), ' ');
      line += column == 0 ? cell + padding : "  " + padding + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace cinch::cli
