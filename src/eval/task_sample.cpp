// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/task_sample.h"

#include <algorithm>
#include <cctype>

namespace kvasir {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return result;
}

}  // namespace

std::string TaskSample::right_answer() const {
  std::string text;
  for (const std::string& answer : answers) text += (text.empty() ? " " : ", ") + answer;
  return text;
}

double answer_score(std::string_view answer, const std::vector<std::string>& references) {
  if (references.empty()) return 0.0;
  const std::string text = lower(answer);
  const auto found = std::count_if(references.begin(), references.end(), [&](const std::string& reference) {
    return text.find(lower(reference)) != std::string::npos;
  });
  return double(found) / double(references.size());
}

int64_t largest_that_fits(int64_t least, int64_t guess, int64_t budget, const std::function<int64_t(int64_t)>& size) {
  if (size(least) > budget) return -1;
  int64_t fits = least, step = std::max<int64_t>(guess - least, 1);
  while (size(fits + step) <= budget) {
    fits += step;
    step *= 2;
  }
  for (int64_t too_many = fits + step; too_many - fits > 1;) {
    const int64_t middle = fits + (too_many - fits) / 2;
    (size(middle) <= budget ? fits : too_many) = middle;
  }
  return fits;
}

}  // namespace kvasir
