// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/report.h"

#include <fmt/format.h>

#include <utility>

#include "eval/report_data.h"
#include "eval/report_sections.h"

namespace kvasir {

ReportDocument build_report(const std::string& folder) {
  const ReportData data = load_report(folder);
  ReportDocument document;
  document.title = "KV caches compared";
  document.subtitle = fmt::format("{}: models {}, methods {}, cells {}", data.index.value("program", "kvasir"),
                                  data.models().size(), data.methods().size(), data.cells.size());
  const auto add = [&](ReportSection section) {
    if (!section.blocks.empty()) document.sections.push_back(std::move(section));
  };
  add(overview_section(data));
  add(pareto_section(data));
  for (const std::string& model : data.models()) add(quality_section(data, model));
  add(needle_section(data));
  add(tasks_section(data));
  add(cost_section(data));
  add(papers_section(data));
  add(missing_section(data));
  add(reading_section());
  return document;
}

}  // namespace kvasir
