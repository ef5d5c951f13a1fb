// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/divergence_summary.h"

#include <algorithm>
#include <cmath>

namespace kvasir {
namespace {

template <typename Value>
std::vector<double> each(std::span<const LogitDivergence> positions, Value value) {
  std::vector<double> values;
  values.reserve(positions.size());
  for (const LogitDivergence& position : positions) values.push_back(value(position));
  return values;
}

}  // namespace

MeanError mean_error(std::span<const double> values) {
  const double n = double(values.size());
  if (values.empty()) return {};
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / n;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, n > 1 ? std::sqrt(squares / n / (n - 1)) : 0.0};
}

double quantile(std::span<const double> ascending, double share) {
  if (ascending.empty()) return 0;
  const double place = std::clamp(share, 0.0, 1.0) * double(ascending.size() - 1);
  const size_t below = size_t(place), above = std::min(below + 1, ascending.size() - 1);
  const double weight = place - double(below);
  return (1 - weight) * ascending[below] + weight * ascending[above];
}

DivergenceSummary summarize(std::span<const LogitDivergence> positions) {
  using Position = LogitDivergence;
  DivergenceSummary summary;
  summary.positions = positions.size();
  if (positions.empty()) return summary;

  std::vector<double> kld = each(positions, [](const Position& p) { return p.kld; });
  summary.kld = mean_error(kld);
  std::sort(kld.begin(), kld.end());
  summary.kld_median = quantile(kld, 0.5);
  summary.kld_p90 = quantile(kld, 0.9);
  summary.kld_p95 = quantile(kld, 0.95);
  summary.kld_p99 = quantile(kld, 0.99);
  summary.kld_p999 = quantile(kld, 0.999);
  summary.kld_max = kld.back();

  const MeanError nll = mean_error(each(positions, [](const Position& p) { return p.nll; }));
  const MeanError nll_base = mean_error(each(positions, [](const Position& p) { return p.nll_base; }));
  summary.ppl = std::exp(nll.mean);
  summary.ppl_base = std::exp(nll_base.mean);
  summary.ppl_se = summary.ppl * nll.se;  // d e^x = e^x dx
  summary.ppl_base_se = summary.ppl_base * nll_base.se;
  summary.ln_ppl_ratio = mean_error(each(positions, [](const Position& p) { return p.nll - p.nll_base; }));
  summary.top1 = mean_error(each(positions, [](const Position& p) { return p.same_top ? 1.0 : 0.0; }));

  const std::vector<double> delta = each(positions, [](const Position& p) { return p.delta_p(); });
  summary.delta_p = mean_error(delta);
  double squares = 0;
  for (const double d : delta) squares += d * d;
  summary.delta_p_rms = std::sqrt(squares / double(delta.size()));
  return summary;
}

}  // namespace kvasir
