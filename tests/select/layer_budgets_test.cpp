// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "select/layer_budgets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/random.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

TEST(LayerBudgets, SumExactlyAndKeepTheFloor) {
  SplitMix random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<double> similarity(1 + size_t(random.uniform() * 40));
    for (double& s : similarity)
      s = 1.0 - 2.0 * std::pow(random.uniform(), 4);  // some layers matter far more than others
    const auto budget = int64_t(1 + random.uniform() * 5000);
    for (const double alpha : {0.0, 1.0, 2.0, 8.0, 100.0})
      for (const double floor : {0.0, 0.25, 1.0}) {
        const std::vector<int64_t> budgets = layer_budgets(similarity, budget, alpha, floor);
        EXPECT_EQ(std::accumulate(budgets.begin(), budgets.end(), int64_t(0)), int64_t(similarity.size()) * budget);
        EXPECT_GE(*std::min_element(budgets.begin(), budgets.end()), int64_t(floor * double(budget)) - 1);
      }
  }
}

TEST(LayerBudgets, FollowThePowerLawAboveTheFloor) {
  const std::vector<double> similarity = {0.9, 0.8, 0.6};  // 1 - s: .1 .2 .4
  EXPECT_EQ(layer_budgets(similarity, 700, 1, 0), (std::vector<int64_t>{300, 600, 1200}));
  EXPECT_EQ(layer_budgets(similarity, 700, 2, 0), (std::vector<int64_t>{100, 400, 1600}));
  EXPECT_EQ(layer_budgets(similarity, 700, 0), (std::vector<int64_t>{700, 700, 700}));
  EXPECT_EQ(layer_budgets(similarity, 700, 2, 0.25), (std::vector<int64_t>{175, 385, 1540}));
}

TEST(LayerBudgets, EqualLayersShareEqually) {
  EXPECT_EQ(layer_budgets(std::vector<double>(4, 1.0), 10, 2), std::vector<int64_t>(4, 10)) << "nothing differs";
  EXPECT_EQ(layer_budgets(std::vector<double>(3, 0.5), 7, 8), std::vector<int64_t>(3, 7));
  EXPECT_EQ(layer_budgets(std::vector<double>{0.3}, 99, 2), std::vector<int64_t>{99});
}

TEST(LayerBudgets, RefusesNonsense) {
  const std::vector<double> good = {0.5, 0.6};
  EXPECT_THROW(layer_budgets({}, 10, 1), Error);
  EXPECT_THROW(layer_budgets(good, 0, 1), Error);
  EXPECT_THROW(layer_budgets(good, 10, -1), Error);
  EXPECT_THROW(layer_budgets(good, 10, 101), Error);
  EXPECT_THROW(layer_budgets(good, 10, 1, 1.5), Error);
  EXPECT_THROW(layer_budgets(std::vector<double>{0.5, std::numeric_limits<double>::quiet_NaN()}, 10, 1), Error);
  EXPECT_THROW(layer_budgets(std::vector<double>{0.5, 1.5}, 10, 1), Error);
}

}  // namespace
}  // namespace kvasir
