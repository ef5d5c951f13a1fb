// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Times of several methods that took turns: what is compared is always one turn of each, run one after the other, so
// that a slow spell of the machine falls on all of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

namespace kvasir::cli {

// Median with the quartiles around it.
struct Quartiles {
  double low = 0, median = 0, high = 0;
};
Quartiles quartiles(std::vector<double> values);

inline double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class PairedTimes {
 public:
  explicit PairedTimes(size_t methods) : seconds_(methods) {}

  // One turn of every method; who begins moves on by one from turn to turn. `step(m)` returns its seconds.
  void turn(const std::function<double(size_t method)>& step);

  Quartiles time(size_t method) const { return quartiles(seconds_[method]); }
  double total(size_t method) const;
  // Time of `baseline` over time of `ours`, turn by turn: above 1, ours is faster.
  Quartiles ratio(size_t ours, size_t baseline) const;

 private:
  std::vector<std::vector<double>> seconds_;  // [method][turn]
};

}  // namespace kvasir::cli
