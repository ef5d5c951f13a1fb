// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// One question of a retrieval task, and how answers to it are judged.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir {

struct TaskSample {
  std::string context;        // instruction and haystack
  std::string question;       // after the context
  std::string answer_prefix;  // the beginning of the answer, given to the model; no space at its end
  std::vector<std::string> answers;

  // The answers as a model would go on after the prefix: " a, b, c".
  std::string right_answer() const;
};

// RULER's metric `all`: the share of the references that the answer contains, without regard to case.
double answer_score(std::string_view answer, const std::vector<std::string>& references);

// The largest n >= least for which size(n) <= budget, where size doesn't shrink as n grows; -1 if `least` is too
// large already. `guess` only saves work.
int64_t largest_that_fits(int64_t least, int64_t guess, int64_t budget, const std::function<int64_t(int64_t)>& size);

}  // namespace kvasir
