// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/tune_frontier.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kvasir/error.h"

namespace kvasir {
namespace {

// Sums of shares of bits miss a round number by rounding: --bits 2.5 must reach a cache of 2.5 bits.
constexpr double kRounding = 1e-9;

struct Step {
  size_t unit = 0;
  int candidate = 0;  // that the unit has after the step
  double slope = 0;   // fall in divergence per bit
};

double slope(const TuneCell& from, const TuneCell& to) {
  return (from.kld - to.kld) / (to.bits - from.bits);
}

FrontierPoint point_of(const std::vector<std::vector<TuneCell>>& table, std::vector<int> choice) {
  FrontierPoint point;
  for (size_t unit = 0; unit < table.size(); ++unit) {
    const TuneCell& cell = table[unit][size_t(choice[unit])];
    point.bits += cell.bits;
    point.kld += cell.kld;
  }
  point.choice = std::move(choice);
  return point;
}

}  // namespace

std::vector<int> convex_candidates(std::span<const TuneCell> cells) {
  std::vector<int> order(cells.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](int i) { return !std::isfinite(cells[size_t(i)].kld); });
  std::ranges::stable_sort(order, [&](int a, int b) {
    const TuneCell &x = cells[size_t(a)], &y = cells[size_t(b)];
    return x.bits != y.bits ? x.bits < y.bits : x.kld < y.kld;
  });
  std::vector<int> hull;
  for (const int next : order) {
    const TuneCell& cell = cells[size_t(next)];
    if (!hull.empty() && cell.kld >= cells[size_t(hull.back())].kld) continue;  // dearer and no better
    const auto above_the_line = [&] {
      const TuneCell &last = cells[size_t(hull.back())], &before = cells[size_t(hull[hull.size() - 2])];
      return slope(before, last) <= slope(last, cell);
    };
    while (hull.size() > 1 && above_the_line()) hull.pop_back();
    hull.push_back(next);
  }
  return hull;
}

std::vector<FrontierPoint> tune_frontier(const std::vector<std::vector<TuneCell>>& table) {
  if (table.empty()) throw Error(ErrorCode::invalid_argument, "there is nothing to choose for");
  std::vector<int> choice;
  std::vector<Step> steps;
  for (size_t unit = 0; unit < table.size(); ++unit) {
    const std::vector<int> hull = convex_candidates(table[unit]);
    if (hull.empty())
      throw Error(ErrorCode::invalid_argument,
                  "no candidate works for one side of a group of layers; give others with --candidates");
    choice.push_back(hull.front());
    for (size_t i = 1; i < hull.size(); ++i)
      steps.push_back({unit, hull[i], slope(table[unit][size_t(hull[i - 1])], table[unit][size_t(hull[i])])});
  }
  // Within a unit the slopes fall strictly, so its steps stay in order.
  std::ranges::stable_sort(steps, [](const Step& a, const Step& b) { return a.slope > b.slope; });
  std::vector<FrontierPoint> frontier = {point_of(table, choice)};
  for (const Step& step : steps) {
    choice[step.unit] = step.candidate;
    frontier.push_back(point_of(table, choice));
  }
  return frontier;
}

size_t point_for_bits(std::span<const FrontierPoint> frontier, double bits) {
  size_t count = 0;
  while (count < frontier.size() && frontier[count].bits <= bits + kRounding) ++count;
  if (count == 0)
    throw Error(ErrorCode::invalid_argument, too_few_bits(bits, frontier.front().bits, frontier.back().bits));
  return count - 1;
}

size_t point_for_kld(std::span<const FrontierPoint> frontier, double kld) {
  for (size_t i = 0; i < frontier.size(); ++i)
    if (frontier[i].kld <= kld) return i;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("--kld {} can't be reached: these candidates have a KLD of {:.3g} (at {:.3f} bits a value) to "
                  "{:.3g} (at {:.3f}); ask for that, or give better --candidates",
                  kld, frontier.front().kld, frontier.front().bits, frontier.back().kld, frontier.back().bits));
}

std::string too_few_bits(double bits, double cheapest, double dearest) {
  return fmt::format(
      "--bits {} can't be reached: these candidates take {:.3f} to {:.3f} bits a value; ask for that, or "
      "give cheaper --candidates",
      bits, cheapest, dearest);
}

}  // namespace kvasir
