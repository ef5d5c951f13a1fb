// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// niah_*: needles in noise, in prose or among other needles (RULER, table 2).
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>

#include "eval/hidden_needle.h"
#include "eval/ruler_sample.h"
#include "eval/task_words.h"

namespace kvasir {
namespace {

enum class Hay { noise, prose, needles };

struct NeedleShape {
  std::string_view name;
  Hay hay = Hay::prose;
  bool uuid_keys = false, uuid_values = false;
  int keys = 1, values = 1, queries = 1;
};

constexpr std::array<NeedleShape, 8> kShapes = {{
    {"niah_single_1", Hay::noise},
    {"niah_single_2", Hay::prose},
    {"niah_single_3", Hay::prose, false, true},
    {"niah_multikey_1", Hay::prose, false, false, 4},
    {"niah_multikey_2", Hay::needles},
    {"niah_multikey_3", Hay::needles, true, true},
    {"niah_multivalue", Hay::prose, false, false, 1, 4},
    {"niah_multiquery", Hay::prose, false, false, 4, 1, 4},
}};

constexpr int kDepths = 40;  // linear, as RULER's
constexpr int kNumberDigits = 7;
constexpr int kAnswerTokens = 128;

const NeedleShape& shape_of(const RulerTask& task) {
  return *std::find_if(kShapes.begin(), kShapes.end(), [&](const NeedleShape& s) { return s.name == task.name; });
}

std::string new_key(TaskWords& words, const NeedleShape& shape) {
  return shape.uuid_keys ? words.uuid() : words.key();
}

std::string new_value(TaskWords& words, const NeedleShape& shape) {
  return shape.uuid_values ? words.uuid() : words.number(kNumberDigits);
}

// As many different depths as there are needles, in order, as shares of the haystack.
std::vector<double> needle_depths(size_t count, SplitMix& random) {
  std::vector<int> all(kDepths);
  std::iota(all.begin(), all.end(), 0);
  shuffle(all, random);
  std::sort(all.begin(), all.begin() + std::ptrdiff_t(count));
  std::vector<double> depths;
  for (size_t i = 0; i < count; ++i) depths.push_back(double(all[i]) / double(kDepths - 1));
  return depths;
}

TaskSample make_needles(const RulerTask& task, const RulerSource& source, int64_t units) {
  const NeedleShape& shape = shape_of(task);
  const std::string_view kind = shape.uuid_values ? "uuids" : "numbers";
  TaskWords words(source.seed);
  std::vector<HiddenNeedle> needles;
  for (int k = 0; k < shape.keys; ++k) {
    const std::string key = new_key(words, shape);
    for (int v = 0; v < shape.values; ++v) needles.push_back({key, new_value(words, shape)});
  }
  // Asked for: the first `queries` keys. Where they lie is another matter.
  TaskSample sample;
  std::vector<std::string> asked;
  for (int q = 0; q < shape.queries; ++q) asked.push_back(needles[size_t(q) * size_t(shape.values)].key);
  for (int n = 0; n < shape.queries * shape.values; ++n) sample.answers.push_back(needles[size_t(n)].value);
  shuffle(needles, words.random());
  const std::vector<double> depths = needle_depths(needles.size(), words.random());

  const bool several = sample.answers.size() > 1;
  sample.context = needle_instruction(kind) + "\n\n";
  size_t next = 0;
  const size_t first_sentence = size_t(words.random().below(97));  // another part of the prose in each sample
  for (int64_t i = 0; i <= units; ++i) {
    for (; next < needles.size() && int64_t(std::lround(depths[next] * double(units))) <= i; ++next)
      sample.context += " " + needle_sentence(needles[next], kind);
    if (i == units) break;
    if (shape.hay == Hay::needles) {
      const std::string key = new_key(words, shape);
      sample.context += " " + needle_sentence({key, new_value(words, shape)}, kind);
    } else {
      sample.context += (shape.hay == Hay::noise ? source.noise->sentence(size_t(i))
                                                 : source.prose->sentence(first_sentence + size_t(i)));
    }
  }
  sample.question = needle_question(asked, kind, several);
  sample.answer_prefix = needle_answer_prefix(asked, kind, several);
  return sample;
}

std::string solve_needles(const TaskSample& sample) {
  std::string answer;
  for (const std::string& value : find_needle_values(sample.context, sample.question)) answer += " " + value;
  return answer;
}

}  // namespace

void add_ruler_needles(std::vector<RulerTask>& tasks) {
  for (const NeedleShape& shape : kShapes) {
    const double tokens = shape.hay == Hay::noise ? 5 : shape.hay == Hay::prose ? 24 : shape.uuid_keys ? 90 : 30;
    tasks.push_back({std::string(shape.name), kAnswerTokens, 1, tokens, make_needles, solve_needles});
  }
}

}  // namespace kvasir
