// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/text_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvasir::cli {

std::string text_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t column = 0; column < row.size(); ++column)
      line +=
          column == 0 ? fmt::format("{:<{}}", row[0], widths[0]) : fmt::format("  {:>{}}", row[column], widths[column]);
    line.resize(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace kvasir::cli
