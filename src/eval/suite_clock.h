// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The time budget of a suite: what was spent, and what the next cell will probably take.
#pragma once

#include <chrono>
#include <map>
#include <string>

namespace kvasir {

class SuiteClock {
 public:
  explicit SuiteClock(double budget_seconds) : budget_(budget_seconds) {}  // 0: no limit

  double spent() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  double left() const { return budget_ > 0 ? budget_ - spent() : kForever; }

  // Records that one cache read `tokens` tokens of a model of that many bytes in `seconds`.
  void learn(const std::string& model, double model_bytes, double tokens, double seconds);
  // Seconds for one cache to read `tokens` tokens; from another model, by the ratio of their sizes, before the first
  // measurement of this one; 0 before any.
  double reading(const std::string& model, double model_bytes, double tokens) const;

  // The same for whole cells of a task.
  void learn_task(const std::string& model, const std::string& task, double seconds);
  double task(const std::string& model, const std::string& task) const;  // 0 before the first

  static constexpr double kForever = 1e30;

 private:
  struct Rate {
    double seconds_per_token, bytes;
  };
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double budget_;
  std::map<std::string, Rate> rates_;
  std::map<std::string, double> tasks_;
};

std::string in_minutes(double seconds);  // "40 s", "12 min"

}  // namespace kvasir
