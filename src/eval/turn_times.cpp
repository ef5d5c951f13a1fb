// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/turn_times.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace kvasir {
namespace {

// From the last turn back, as long as it holds.
std::optional<size_t> holds_from(size_t first, size_t turns, const std::function<bool(size_t turn)>& cheaper) {
  std::optional<size_t> from;
  for (size_t turn = turns; turn >= first && turn > 0 && cheaper(turn); --turn) from = turn;
  return from;
}

}  // namespace

std::vector<Stretch> stretches(size_t turns) {
  std::vector<Stretch> result;
  for (const size_t twelfths : {1, 2, 4, 6, 8, 12}) {
    const size_t last = (turns * twelfths + 11) / 12, first = result.empty() ? 1 : result.back().last + 1;
    if (last >= first) result.push_back({first, last});
  }
  return result;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double mean(std::span<const double> values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

std::vector<double> turn_seconds(const WayTimes& way) {
  std::vector<double> seconds;
  for (const TurnCost& turn : way.turns) seconds.push_back(turn.total());
  return seconds;
}

std::span<const double> within(std::span<const double> turns, const Stretch& stretch) {
  return turns.subspan(stretch.first - 1, stretch.last - stretch.first + 1);
}

std::optional<size_t> break_even_by_median(std::span<const double> ours, std::span<const double> theirs,
                                           size_t window) {
  const auto trailing = [&](std::span<const double> turns, size_t turn) {
    const std::span<const double> last = turns.subspan(turn - window, window);
    return median({last.begin(), last.end()});
  };
  return holds_from(window, std::min(ours.size(), theirs.size()),
                    [&](size_t turn) { return trailing(ours, turn) < trailing(theirs, turn); });
}

std::optional<size_t> break_even_by_total(std::span<const double> ours, std::span<const double> theirs) {
  const size_t turns = std::min(ours.size(), theirs.size());
  std::vector<double> our_total(turns), their_total(turns);
  std::partial_sum(ours.begin(), ours.begin() + std::ptrdiff_t(turns), our_total.begin());
  std::partial_sum(theirs.begin(), theirs.begin() + std::ptrdiff_t(turns), their_total.begin());
  return holds_from(1, turns, [&](size_t turn) { return our_total[turn - 1] < their_total[turn - 1]; });
}

}  // namespace kvasir
