// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "eval/report.h"

namespace kvasir {
namespace {

// Bars would end a field of a table, and a line break the row.
std::string field_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|')
      out += "\\|";
    else
      out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string table_markdown(const ReportTable& table) {
  std::string text;
  if (!table.caption.empty()) text += "**" + table.caption + "**\n\n";
  std::string names = "|", rule = "|";
  for (size_t i = 0; i < table.columns.size(); ++i) {
    names += " " + field_text(table.columns[i]) + " |";
    rule += i < table.left_columns ? "---|" : "---:|";
  }
  text += names + "\n" + rule + "\n";
  for (const auto& row : table.rows) {
    text += "|";
    for (const ReportField& field : row) {
      const bool strong = field.look == ReportField::Look::strong && !field.text.empty();
      text += " " + (strong ? "**" + field_text(field.text) + "**" : field_text(field.text)) + " |";
    }
    for (size_t i = row.size(); i < table.columns.size(); ++i) text += " |";
    text += "\n";
  }
  return text + "\n";
}

}  // namespace

std::string report_markdown(const ReportDocument& document) {
  std::string text = "# " + document.title + "\n\n" + document.subtitle + "\n\n";
  for (const ReportSection& section : document.sections) {
    // A section of figures alone has nothing to say here.
    if (std::ranges::all_of(section.blocks, [](const auto& b) { return b.kind == ReportBlock::Kind::figures; }))
      continue;
    text += "## " + section.title + "\n\n";
    for (const ReportBlock& block : section.blocks) {
      if (block.kind == ReportBlock::Kind::paragraph) text += block.text + "\n\n";
      if (block.kind == ReportBlock::Kind::table) text += table_markdown(block.table);
      if (block.kind != ReportBlock::Kind::list) continue;
      for (const std::string& item : block.items) text += "- " + item + "\n";
      text += "\n";
    }
  }
  return text;
}

}  // namespace kvasir
