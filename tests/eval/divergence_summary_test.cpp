// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/divergence_summary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "base/random.h"

namespace kvasir {
namespace {

TEST(MeanError, ByHand) {
  const std::vector<double> values = {1, 2, 3, 4};  // E x^2 - (E x)^2 = 1.25
  EXPECT_DOUBLE_EQ(mean_error(values).mean, 2.5);
  EXPECT_DOUBLE_EQ(mean_error(values).se, std::sqrt(1.25 / 3));
  EXPECT_EQ(mean_error({}).mean, 0.0);
  const std::vector<double> one = {7};
  EXPECT_EQ(mean_error(one).mean, 7.0);
  EXPECT_EQ(mean_error(one).se, 0.0);
}

TEST(MeanError, SmallSpreadAroundALargeMean) {
  std::vector<double> values;
  for (int i = 0; i < 1000; ++i) values.push_back(1e9 + (i % 2));
  EXPECT_NEAR(mean_error(values).se, std::sqrt(0.25 / 999), 1e-9);
}

TEST(Quantile, InterpolatesBetweenNeighbours) {
  std::vector<double> values(101);
  std::iota(values.begin(), values.end(), 0.0);
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 50);
  EXPECT_DOUBLE_EQ(quantile(values, 0.99), 99);
  EXPECT_DOUBLE_EQ(quantile(values, 0.995), 99.5);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 100);
  EXPECT_DOUBLE_EQ(quantile(values, 0), 0);
  EXPECT_EQ(quantile({}, 0.5), 0.0);
}

TEST(Summary, OfAnExponentialDistribution) {
  // KLDs of an exponential law with mean 1: quantiles are -ln(1 - q), the standard error is 1 / sqrt(n).
  constexpr int kCount = 200000;
  SplitMix random(4);
  std::vector<LogitDivergence> positions(kCount);
  for (LogitDivergence& position : positions) {
    position.kld = -std::log(1 - random.uniform());
    position.nll_base = 2.0 + 0.5 * random.normal();
    position.nll = position.nll_base + 0.01;  // perfectly paired
    position.same_top = random.uniform() < 0.75;
  }
  const DivergenceSummary summary = summarize(positions);
  const double se = 1 / std::sqrt(double(kCount));
  EXPECT_EQ(summary.positions, size_t(kCount));
  EXPECT_NEAR(summary.kld.mean, 1, 4 * se);
  EXPECT_NEAR(summary.kld.se, se, 0.02 * se);
  // The standard error of a quantile is sqrt(q (1 - q) / n) over the density e^-x = 1 - q there.
  for (const auto& [value, q] : {std::pair{summary.kld_median, 0.5}, {summary.kld_p90, 0.9}, {summary.kld_p99, 0.99}})
    EXPECT_NEAR(value, -std::log(1 - q), 4 * se * std::sqrt(q / (1 - q)));
  EXPECT_GE(summary.kld_max, summary.kld_p999);
  EXPECT_NEAR(summary.ppl / summary.ppl_base, std::exp(0.01), 1e-12);
  EXPECT_NEAR(summary.ln_ppl_ratio.mean, 0.01, 1e-12);
  EXPECT_LT(summary.ln_ppl_ratio.se, 1e-12);  // pairing removes the spread that ppl_se keeps
  EXPECT_NEAR(summary.ppl_se / summary.ppl, 0.5 * se, 0.02 * se);
  EXPECT_NEAR(summary.top1.mean, 0.75, 4 * std::sqrt(0.75 * 0.25) * se);
  EXPECT_LT(summary.delta_p.mean, 0);
  EXPECT_GE(summary.delta_p_rms, -summary.delta_p.mean);
}

TEST(Summary, OfNothing) {
  EXPECT_EQ(summarize({}).positions, 0u);
  EXPECT_EQ(summarize({}).kld.mean, 0.0);
}

}  // namespace
}  // namespace kvasir
