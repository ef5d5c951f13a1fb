// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "select/layer_budgets.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "kvasir/error.h"

namespace kvasir {
namespace {

void check(std::span<const double> similarity, int64_t budget, double alpha, double floor) {
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  if (similarity.empty()) refuse("no layer to share a budget");
  if (budget < 1) refuse("a budget takes 1 or more tokens, got " + std::to_string(budget));
  if (!(alpha >= 0 && alpha <= 100)) refuse("alpha takes 0 (uniform) to 100, got " + std::to_string(alpha));
  if (!(floor >= 0 && floor <= 1)) refuse("the least share of a layer is 0 to 1, got " + std::to_string(floor));
  for (const double s : similarity)
    if (!(std::abs(s) <= 1 + 1e-9)) refuse("a similarity of " + std::to_string(s) + " is no cosine");
}

// Shares of `total`, none below `least`, the others in proportion to their weights.
std::vector<double> fill(std::span<const double> weights, double total, double least) {
  std::vector<double> shares(weights.size(), least);
  std::vector<bool> above(weights.size(), true);
  for (bool changed = true; changed;) {
    double open = total, weight = 0;
    for (size_t l = 0; l < weights.size(); ++l) {
      if (above[l])
        weight += weights[l];
      else
        open -= least;
    }
    changed = false;
    for (size_t l = 0; l < weights.size(); ++l) {
      if (!above[l]) continue;
      shares[l] = weights[l] / weight * open;
      if (shares[l] >= least) continue;
      shares[l] = least;
      above[l] = false;
      changed = true;
    }
  }
  return shares;
}

}  // namespace

std::vector<int64_t> layer_budgets(std::span<const double> similarity, int64_t budget, double alpha, double floor) {
  check(similarity, budget, alpha, floor);
  const size_t layers = similarity.size();
  std::vector<double> weights;
  for (const double s : similarity) weights.push_back(std::pow(std::max(0.0, 1.0 - s), alpha));
  if (!(std::accumulate(weights.begin(), weights.end(), 0.0) > 0)) weights.assign(layers, 1.0);
  const int64_t total = int64_t(layers) * budget;
  const std::vector<double> shares = fill(weights, double(total), floor * double(budget));

  std::vector<int64_t> budgets;
  for (const double share : shares) budgets.push_back(int64_t(std::floor(share)));
  std::vector<size_t> order(layers);
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return shares[a] - double(budgets[a]) > shares[b] - double(budgets[b]); });
  // Rounding of the shares may put the sum on either side.
  int64_t rest = total - std::accumulate(budgets.begin(), budgets.end(), int64_t(0));
  for (size_t i = 0; rest != 0; i = (i + 1) % layers) {
    budgets[order[i]] += rest > 0 ? 1 : -1;
    rest += rest > 0 ? -1 : 1;
  }
  return budgets;
}

}  // namespace kvasir
