// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "eval/report_data.h"
#include "eval/report_figures.h"
#include "eval/report_numbers.h"

namespace kvasir {
namespace {

ReportCell kld_cell(const std::string& method, double bits, double kld) {
  ReportCell cell;
  cell.method = method;
  cell.status = "done";
  cell.task = "kld";
  cell.parameters = {{"method", {{"k", method}}}};
  cell.result = {{"bits_per_value", bits}, {"kld", {{"mean", kld}, {"se", kld / 10}}}};
  return cell;
}

TEST(ReportNumbers, NoMoreDigitsThanTheErrorAllows) {
  EXPECT_EQ(with_error(0.00123, 0.00004), "(1.230 ± 0.040)·10⁻³");
  EXPECT_EQ(with_error(0.412, 0.0093), "0.4120 ± 0.0093");
  EXPECT_EQ(with_error(NAN, 1), "–");
  EXPECT_EQ(with_error_fixed(97.346, 0.21, 2), "97.35 ± 0.21");
  EXPECT_EQ(scientific(2.3e-7), "2.30·10⁻⁷");
  EXPECT_EQ(fixed(NAN, 2), "–");
  EXPECT_EQ(byte_count(12345678), "12.3 MB");
  EXPECT_EQ(power_of_ten(-12), "10⁻¹²");
}

TEST(ReportData, TheFrontHoldsWhatNothingBeats) {
  const std::vector<ReportCell> cells = {kld_cell("a", 4, 1e-2), kld_cell("b", 3, 5e-2), kld_cell("c", 4.5, 2e-2),
                                         kld_cell("d", 8, 1e-4), kld_cell("e", 4, 2e-2)};
  std::vector<const ReportCell*> pointers;
  for (const ReportCell& cell : cells) pointers.push_back(&cell);
  ReportCell missing = kld_cell("f", 1, 1e-9);
  missing.status = "not_run";
  pointers.push_back(&missing);
  std::string front;
  for (const ReportCell* cell : pareto_front(pointers)) front += cell->method;
  EXPECT_EQ(front, "bad");
}

TEST(ReportFigures, ZeroAndMissingValuesDontBreakTheAxes) {
  const ReportCell exact = kld_cell("exact", 16, 0), good = kld_cell("good<&", 4, 1e-3);
  ReportCell missing;
  missing.status = "failed";
  const std::string svg = pareto_figure("a & b", {&exact, &good, &missing});
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  EXPECT_NE(svg.find("good&lt;&amp;"), std::string::npos);
  EXPECT_EQ(pareto_figure("none", {&missing}), "");
}

TEST(Report, MarkdownKeepsBarsInsideTheirField) {
  ReportTable table;
  table.columns = {"a|b", "c"};
  table.rows = {{{"x|y", ReportField::Look::strong}, {"1"}}, {{"over both"}}};
  ReportBlock block;
  block.kind = ReportBlock::Kind::table;
  block.table = table;
  const ReportDocument document{"T", "S", {{"One", {block}}}};
  const std::string markdown = report_markdown(document);
  EXPECT_NE(markdown.find("| **x\\|y** | 1 |"), std::string::npos) << markdown;
  EXPECT_NE(markdown.find("| over both | |"), std::string::npos) << markdown;
  EXPECT_NE(report_html(document).find("<td class=\"left\" colspan=\"2\">over both</td>"), std::string::npos);
}

}  // namespace
}  // namespace kvasir
