// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Samples of the eleven RULER tasks that need no data set (arXiv 2404.06654, section 3), and a solver that reads their
// answers out of the prompt. Knows nothing of models: sizes come in through `units`, what a task repeats to grow.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "eval/filler.h"
#include "eval/task_sample.h"

namespace kvasir {

struct RulerSource {
  uint64_t seed = 42;             // of this sample
  int64_t length = 4096;          // tokens wanted: cwe and fwe choose their frequencies by it
  const Filler* prose = nullptr;  // of the essay tasks
  const Filler* noise = nullptr;
};

struct RulerTask {
  std::string name;
  int answer_tokens = 0;   // RULER's own limits
  int64_t least = 0;       // units of the smallest sample
  double unit_tokens = 1;  // about how many tokens a unit takes
  TaskSample (*make)(const RulerTask& task, const RulerSource& source, int64_t units) = nullptr;
  // The answers as the text of `sample` gives them, read without a look at sample.answers; empty if it doesn't.
  std::string (*solve)(const TaskSample& sample) = nullptr;
};

// In RULER's order, niah_single_1 first.
const std::vector<RulerTask>& ruler_tasks();

// Throws Error invalid_argument that lists the names.
const RulerTask& ruler_task(std::string_view name);

// The parts of the table above, one file each.
void add_ruler_needles(std::vector<RulerTask>& tasks);   // ruler_needles.cpp: the eight niah tasks
void add_ruler_chains(std::vector<RulerTask>& tasks);    // ruler_chains.cpp: vt
void add_ruler_counting(std::vector<RulerTask>& tasks);  // ruler_counting.cpp: cwe, fwe

}  // namespace kvasir
