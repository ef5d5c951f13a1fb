// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/suite_clock.h"

#include <fmt/format.h>

namespace kvasir {
namespace {

std::string task_key(const std::string& model, const std::string& task) {
  return model + "\n" + task;
}

}  // namespace

void SuiteClock::learn(const std::string& model, double model_bytes, double tokens, double seconds) {
  if (tokens > 0) rates_[model] = {seconds / tokens, model_bytes};
}

double SuiteClock::reading(const std::string& model, double model_bytes, double tokens) const {
  constexpr double kMargin = 1.1;  // longer contexts attend to more
  const auto found = rates_.find(model);
  if (found != rates_.end()) return kMargin * tokens * found->second.seconds_per_token;
  double most = 0;
  for (const auto& [name, rate] : rates_)
    if (rate.bytes > 0) most = std::max(most, rate.seconds_per_token * model_bytes / rate.bytes);
  return kMargin * tokens * most;
}

void SuiteClock::learn_task(const std::string& model, const std::string& task, double seconds) {
  tasks_[task_key(model, task)] = seconds;
}

double SuiteClock::task(const std::string& model, const std::string& task) const {
  const auto found = tasks_.find(task_key(model, task));
  return found == tasks_.end() ? 0 : found->second;
}

std::string in_minutes(double seconds) {
  return seconds < 100 ? fmt::format("{:.0f} s", seconds) : fmt::format("{:.0f} min", seconds / 60);
}

}  // namespace kvasir
