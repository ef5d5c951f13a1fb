// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Statistics over the scored positions of `eval kld`. Standard errors are those of a mean of independent terms,
// sqrt((E x^2 - (E x)^2) / (n - 1)), as llama-perplexity prints them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "eval/logit_divergence.h"

namespace kvasir {

struct MeanError {
  double mean = 0;
  double se = 0;  // standard error of the mean; 0 for fewer than two terms
};
MeanError mean_error(std::span<const double> values);

// The value below which a share of `share` (0-1) of `ascending` lies, interpolated between neighbours.
double quantile(std::span<const double> ascending, double share);

struct DivergenceSummary {
  size_t positions = 0;
  MeanError kld;
  double kld_median = 0, kld_p90 = 0, kld_p95 = 0, kld_p99 = 0, kld_p999 = 0, kld_max = 0;
  double ppl = 0, ppl_base = 0;
  double ppl_se = 0, ppl_base_se = 0;
  MeanError ln_ppl_ratio;  // ln(ppl / ppl_base); the error is of paired terms, far tighter than that of each alone
  MeanError top1;          // share of positions whose likeliest token is the same
  MeanError delta_p;       // p_test(true token) - p_base(true token)
  double delta_p_rms = 0;
};

DivergenceSummary summarize(std::span<const LogitDivergence> positions);

}  // namespace kvasir
