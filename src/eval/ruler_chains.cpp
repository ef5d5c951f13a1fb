// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// vt: variables that take their value from one another, scattered over noise (RULER, section 3.2).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string_view>

#include "eval/ruler_sample.h"
#include "eval/task_words.h"

namespace kvasir {
namespace {

constexpr int kHops = 4;  // so five variables hold the value
constexpr int kLetters = 5;
constexpr int kValueDigits = 5;
constexpr int kAnswerTokens = 30;
constexpr int64_t kExampleSentences = 10;
constexpr std::string_view kHoldValue = "hold the value ";

struct Chain {
  std::string value;
  std::vector<std::string> names;
  std::vector<std::string> assignments;
};

Chain make_chain(TaskWords& words) {
  Chain chain;
  chain.value = words.number(kValueDigits);
  for (int i = 0; i <= kHops; ++i) {
    chain.names.push_back(words.variable(kLetters));
    chain.assignments.push_back(
        fmt::format("VAR {} = {}.", chain.names.back(), i == 0 ? chain.value : "VAR " + chain.names[size_t(i) - 1]));
  }
  return chain;
}

// The assignments in order, at random places between the sentences of noise.
std::string scatter(const Chain& chain, const Filler& noise, int64_t sentences, SplitMix& random) {
  std::vector<double> depths;
  for (size_t i = 0; i < chain.assignments.size(); ++i) depths.push_back(random.uniform());
  std::sort(depths.begin(), depths.end());
  std::string text;
  size_t next = 0;
  for (int64_t i = 0; i <= sentences; ++i) {
    for (; next < depths.size() && int64_t(std::lround(depths[next] * double(sentences))) <= i; ++next)
      text += " " + chain.assignments[next];
    if (i < sentences) text += noise.sentence(size_t(i));
  }
  return text;
}

std::string question(const Chain& chain) {
  return fmt::format("Question: which {} variables {}{}, directly or through others?", kHops + 1, kHoldValue,
                     chain.value);
}

std::string answer_prefix(const Chain& chain) {
  return fmt::format("Answer: the {} variables that {}{} are:", kHops + 1, kHoldValue, chain.value);
}

TaskSample make_vt(const RulerTask&, const RulerSource& source, int64_t units) {
  constexpr std::string_view kInstruction =
      "Variables are given values in the text below, some by way of other variables. Keep track of them.";
  TaskWords words(source.seed);
  const Chain example = make_chain(words), chain = make_chain(words);
  SplitMix& random = words.random();
  TaskSample sample;
  sample.answers = example.names;
  const std::string solved = sample.right_answer();
  sample.context =
      fmt::format("{}\n\n{}\n\n{}\n{}{}\n\n", kInstruction, scatter(example, *source.noise, kExampleSentences, random),
                  question(example), answer_prefix(example), solved);
  sample.context += fmt::format("{}\n\n{}", kInstruction, scatter(chain, *source.noise, units, random));
  sample.question = question(chain);
  sample.answer_prefix = answer_prefix(chain);
  sample.answers = chain.names;
  return sample;
}

std::string solve_vt(const TaskSample& sample) {
  const size_t at = sample.question.find(kHoldValue);
  std::string value = sample.question.substr(at + kHoldValue.size());
  value = value.substr(0, value.find(','));
  std::vector<std::string> holders;
  std::istringstream words(sample.context);
  std::string word, name, equals, source;
  while (words >> word) {
    if (word != "VAR" || !(words >> name >> equals >> source)) continue;
    if (source == "VAR") words >> source;
    source.pop_back();  // the full stop
    if (source == value || std::find(holders.begin(), holders.end(), source) != holders.end()) holders.push_back(name);
  }
  std::string answer;
  for (const std::string& holder : holders) answer += " " + holder;
  return answer;
}

}  // namespace

void add_ruler_chains(std::vector<RulerTask>& tasks) {
  tasks.push_back({"vt", kAnswerTokens, 5, 5, make_vt, solve_vt});
}

}  // namespace kvasir
