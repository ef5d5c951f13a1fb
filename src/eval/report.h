// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// `kvasir report`: the folder of a suite as one page. The content is built once and written twice, as HTML (one file,
// figures as inline SVG, no scripts, made to be printed too) and as Markdown (tables only).
#pragma once

#include <string>
#include <vector>

namespace kvasir {

struct ReportField {
  std::string text;
  enum class Look : unsigned char { plain, strong, muted } look = Look::plain;
};

struct ReportTable {
  std::string caption;
  std::vector<std::string> columns;
  size_t left_columns = 1;                     // aligned left; numbers after them are aligned right
  std::vector<std::vector<ReportField>> rows;  // a row shorter than `columns` ends with a field over the rest
};

struct ReportBlock {
  enum class Kind : unsigned char { paragraph, list, table, figures } kind = Kind::paragraph;
  std::string text;                // paragraph
  std::vector<std::string> items;  // list; figures: SVG elements, side by side
  ReportTable table;
};

struct ReportSection {
  std::string title;
  std::vector<ReportBlock> blocks;
};

struct ReportDocument {
  std::string title, subtitle;
  std::vector<ReportSection> sections;
};

// Reads DIR as `eval suite` left it. Throws Error: not_found if it holds no suite, corrupt for a cell that isn't what
// the suite writes.
ReportDocument build_report(const std::string& folder);

std::string report_html(const ReportDocument& document);
std::string report_markdown(const ReportDocument& document);

}  // namespace kvasir
