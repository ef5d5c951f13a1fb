// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The sections of a report, each made of the cells that it shows; empty (no blocks) where there are none.
#pragma once

#include <string>

#include "eval/report.h"
#include "eval/report_data.h"

namespace kvasir {

ReportSection overview_section(const ReportData& data);  // what was run, what wasn't, what to be careful about
ReportSection pareto_section(const ReportData& data);    // figures: quality against bits
ReportSection quality_section(const ReportData& data, const std::string& model);  // the kld tables of one model
ReportSection needle_section(const ReportData& data);
ReportSection tasks_section(const ReportData& data);    // scores of the other tasks
ReportSection cost_section(const ReportData& data);     // memory and speed
ReportSection papers_section(const ReportData& data);   // what the sources of the presets say, and what was measured
ReportSection missing_section(const ReportData& data);  // cells without a result, with the reason
ReportSection reading_section();                        // what the columns mean

ReportBlock paragraph(std::string text);
ReportBlock list(std::vector<std::string> items);
ReportBlock figures(std::vector<std::string> svg);
ReportBlock table_block(ReportTable table);

// "can't: ...", "not run: ...", "failed: ..." for a cell without a result.
std::string status_text(const ReportCell& cell);

}  // namespace kvasir
