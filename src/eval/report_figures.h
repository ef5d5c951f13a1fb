// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The report's figures as SVG elements: no scripts, no fonts from elsewhere, legible without colour.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "eval/report_data.h"

namespace kvasir {

// KLD against bits, both axes logarithmic, with the Pareto front and one standard error to each side.
std::string pareto_figure(const std::string& title, const std::vector<const ReportCell*>& cells);

// One square for each length and depth of a needle cell, shaded by the share of needles found.
std::string needle_figure(const std::string& title, const ReportCell& cell);

std::string escape_markup(const std::string& text);  // & < > " as entities

}  // namespace kvasir
