// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "eval/report.h"
#include "eval/report_figures.h"

namespace kvasir {
namespace {

constexpr const char* kStyle = R"(
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 62rem; margin: 2rem auto;
       padding: 0 1.2rem; }
h1 { font-size: 1.7rem; margin: 0 0 .2rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid #ccc; padding-bottom: .2rem; }
p.subtitle { color: #555; margin: 0 0 1.2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .82rem; margin: .4rem 0 1.2rem; width: 100%; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; font-size: .92rem; }
th { text-align: right; border-bottom: 1.5px solid #555; padding: .25rem .5rem; vertical-align: bottom; }
td { text-align: right; border-bottom: 1px solid #e5e5e5; padding: .22rem .5rem; vertical-align: top;
     font-variant-numeric: tabular-nums; }
td.number { white-space: nowrap; }
th.left, td.left { text-align: left; }
td:first-child { white-space: nowrap; }
td.strong { font-weight: 600; }
td.muted { color: #777; text-align: left; }
.figures { display: flex; flex-wrap: wrap; gap: .6rem 1.2rem; margin: .6rem 0 1.2rem; }
.figures svg { max-width: 100%; height: auto; break-inside: avoid; }
@media print {
  @page { size: A4; margin: 14mm 12mm; }
  body { font-size: 9.5pt; max-width: none; margin: 0; padding: 0; }
  h2 { break-after: avoid; }
  table { font-size: 7.6pt; }
  tr { break-inside: avoid; }
  thead { display: table-header-group; }
  caption { break-after: avoid; }
  .scroll { overflow: visible; }
  .figures svg.large { width: 48%; }
  .figures svg.small { width: 31%; }
}
)";

std::string field_class(const ReportField& field, bool left) {
  std::string name = left ? "left" : "number";
  if (field.look == ReportField::Look::strong) name += " strong";
  if (field.look == ReportField::Look::muted) name += " muted";
  return name;
}

// Text with `commands` set as code.
std::string prose(const std::string& text) {
  std::string html;
  bool code = false;
  for (size_t from = 0; from <= text.size();) {
    const size_t tick = std::min(text.find('`', from), text.size());
    html += escape_markup(text.substr(from, tick - from));
    if (tick < text.size()) {
      html += code ? "</code>" : "<code>";
      code = !code;
    }
    from = tick + 1;
  }
  return code ? html + "</code>" : html;
}

std::string table_html(const ReportTable& table) {
  std::string html = "<div class=\"scroll\"><table>\n";
  if (!table.caption.empty()) html += "<caption>" + escape_markup(table.caption) + "</caption>\n";
  html += "<thead><tr>";
  for (size_t i = 0; i < table.columns.size(); ++i)
    html +=
        fmt::format("<th{}>{}</th>", i < table.left_columns ? " class=\"left\"" : "", escape_markup(table.columns[i]));
  html += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) {
      const size_t over = i + 1 == row.size() ? table.columns.size() - i : 1;
      const bool left = i < table.left_columns || over > 1;
      html += fmt::format("<td class=\"{}\"{}>{}</td>", field_class(row[i], left),
                          over > 1 ? fmt::format(" colspan=\"{}\"", over) : "", prose(row[i].text));
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string block_html(const ReportBlock& block) {
  std::string html;
  switch (block.kind) {
    case ReportBlock::Kind::paragraph: return "<p>" + prose(block.text) + "</p>\n";
    case ReportBlock::Kind::table: return table_html(block.table);
    case ReportBlock::Kind::list:
      html = "<ul>\n";
      for (const std::string& item : block.items) html += "<li>" + prose(item) + "</li>\n";
      return html + "</ul>\n";
    case ReportBlock::Kind::figures:
      html = "<div class=\"figures\">\n";
      for (const std::string& figure : block.items) html += figure + "\n";
      return html + "</div>\n";
  }
  return html;
}

}  // namespace

std::string report_html(const ReportDocument& document) {
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">\n<title>{0}</title>\n<style>{2}</style>\n</head>\n<body>\n"
      "<h1>{0}</h1>\n<p class=\"subtitle\">{1}</p>\n",
      escape_markup(document.title), escape_markup(document.subtitle), kStyle);
  for (const ReportSection& section : document.sections) {
    html += "<section>\n<h2>" + escape_markup(section.title) + "</h2>\n";
    for (const ReportBlock& block : section.blocks) html += block_html(block);
    html += "</section>\n";
  }
  return html + "</body>\n</html>\n";
}

}  // namespace kvasir
