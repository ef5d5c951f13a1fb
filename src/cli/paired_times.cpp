// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/paired_times.h"

#include <algorithm>
#include <numeric>

namespace kvasir::cli {

Quartiles quartiles(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const auto at = [&](double share) {
    const double place = share * double(values.size() - 1);
    const size_t below = size_t(place), above = std::min(below + 1, values.size() - 1);
    return values[below] + (place - double(below)) * (values[above] - values[below]);
  };
  return {at(0.25), at(0.5), at(0.75)};
}

void PairedTimes::turn(const std::function<double(size_t)>& step) {
  const size_t methods = seconds_.size();
  const size_t begin = methods ? seconds_[0].size() % methods : 0;
  for (size_t i = 0; i < methods; ++i) {
    const size_t method = (begin + i) % methods;
    seconds_[method].push_back(step(method));
  }
}

double PairedTimes::total(size_t method) const {
  return std::accumulate(seconds_[method].begin(), seconds_[method].end(), 0.0);
}

Quartiles PairedTimes::ratio(size_t ours, size_t baseline) const {
  std::vector<double> ratios;
  for (size_t turn = 0; turn < seconds_[ours].size(); ++turn)
    ratios.push_back(seconds_[baseline][turn] / seconds_[ours][turn]);
  return quartiles(std::move(ratios));
}

}  // namespace kvasir::cli
