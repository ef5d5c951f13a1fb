// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/ruler_sample.h"

#include <fmt/format.h>

#include "kvasir/error.h"

namespace kvasir {

const std::vector<RulerTask>& ruler_tasks() {
  static const std::vector<RulerTask> tasks = [] {
    std::vector<RulerTask> all;
    add_ruler_needles(all);
    add_ruler_chains(all);
    add_ruler_counting(all);
    return all;
  }();
  return tasks;
}

const RulerTask& ruler_task(std::string_view name) {
  std::string names;
  for (const RulerTask& task : ruler_tasks()) {
    if (task.name == name) return task;
    names += (names.empty() ? "" : ", ") + task.name;
  }
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("no RULER task '{}'; there are {} (qa_1 and qa_2 need data sets and are left out)", name, names));
}

}  // namespace kvasir
