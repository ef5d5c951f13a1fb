// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// cwe: the ten words that come far more often than the rest of a numbered list. fwe: the three most frequent of coded
// words whose frequencies follow a Zeta distribution (RULER, section 3.3).
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <numbers>
#include <sstream>
#include <string_view>

#include "eval/ruler_sample.h"
#include "eval/task_words.h"

namespace kvasir {
namespace {

constexpr std::string_view kListStart = "List:", kTextStart = "Coded text:";

// The `count` most frequent of the words that stand alone behind the last `start`.
std::string most_frequent(const std::string& context, std::string_view start, size_t count) {
  const size_t at = context.rfind(start);
  if (at == std::string::npos) return {};
  std::istringstream text(context.substr(at + start.size()));
  std::map<std::string, int> counts;
  for (std::string word; text >> word;)
    if (std::isalpha(static_cast<unsigned char>(word[0]))) ++counts[word];
  std::vector<std::pair<int, std::string>> order;
  for (const auto& [word, times] : counts) order.emplace_back(-times, word);
  std::sort(order.begin(), order.end());
  std::string answer;
  for (size_t i = 0; i < std::min(count, order.size()); ++i) answer += " " + order[i].second;
  return answer;
}

// ---- cwe

constexpr int kCommonWords = 10;
constexpr int64_t kFullLength = 4096;  // below, words come less often so that ten still fit

struct WordList {
  std::vector<std::string> common;
  std::string text;
};

WordList make_list(TaskWords& words, int64_t rare, int common_times, int rare_times) {
  WordList list;
  std::vector<std::string> entries;
  for (int i = 0; i < kCommonWords; ++i) {
    list.common.push_back(words.word());
    entries.insert(entries.end(), size_t(common_times), list.common.back());
  }
  for (int64_t i = 0; i < rare; ++i) entries.insert(entries.end(), size_t(rare_times), words.word());
  shuffle(entries, words.random());
  list.text = std::string(kListStart);
  for (size_t i = 0; i < entries.size(); ++i) list.text += fmt::format(" {}. {}", i + 1, entries[i]);
  return list;
}

constexpr std::string_view kCommonQuestion = "Question: which ten words of the list come most often?";
constexpr std::string_view kCommonPrefix = "Answer: the ten words that come most often are:";

TaskSample make_cwe(const RulerTask&, const RulerSource& source, int64_t units) {
  constexpr std::string_view kInstruction =
      "In the numbered list of words below, ten words come much more often than the others. Remember them.";
  const bool full = source.length >= kFullLength;
  // Lists are drawn apart, so that the worked example stays the same while the list grows.
  TaskWords words(source.seed), example_words(source.seed ^ 0xc3e5ull);
  const WordList example = full ? make_list(example_words, 10, 10, 3) : make_list(example_words, 10, 3, 1);
  const WordList list = full ? make_list(words, units, 30, 3) : make_list(words, units, 6, 1);
  TaskSample sample;
  sample.answers = example.common;
  sample.context = fmt::format("{}\n{}\n\n{}\n{}{}\n\n{}\n{}", kInstruction, example.text, kCommonQuestion,
                               kCommonPrefix, sample.right_answer(), kInstruction, list.text);
  sample.question = kCommonQuestion;
  sample.answer_prefix = kCommonPrefix;
  sample.answers = list.common;
  return sample;
}

std::string solve_cwe(const TaskSample& sample) {
  return most_frequent(sample.context, kListStart, kCommonWords);
}

// ---- fwe

constexpr int kAsked = 3;
constexpr int kCodeLetters = 6;
constexpr int64_t kTokensPerCode = 50;  // of the length, for each word of the vocabulary
constexpr double kZeta2 = std::numbers::pi * std::numbers::pi / 6;

TaskSample make_fwe(const RulerTask&, const RulerSource& source, int64_t units) {
  TaskWords words(source.seed);
  const int64_t vocabulary = std::max<int64_t>(source.length / kTokensPerCode, kAsked + 2);
  std::vector<std::string> codes;
  for (int64_t i = 0; i < vocabulary; ++i) codes.push_back(words.letters(kCodeLetters));
  TaskSample sample;
  std::vector<std::string> entries;
  int64_t below = 0;  // entries of the rank above: each of the asked ones comes more often than the next
  for (int64_t rank = std::min<int64_t>(vocabulary, kAsked + 2); rank >= 1; --rank) {
    const int64_t share = int64_t(double(units) / (kZeta2 * double(rank) * double(rank)));
    below = std::max(share, below + 1);
    // The first rank is noise: it's shown as dots.
    entries.insert(entries.end(), size_t(below), rank == 1 ? "..." : codes[size_t(rank) - 1]);
  }
  for (int64_t rank = kAsked + 3; rank <= vocabulary; ++rank) {
    const int64_t share = int64_t(double(units) / (kZeta2 * double(rank) * double(rank)));
    entries.insert(entries.end(), size_t(std::max<int64_t>(share, 1)), codes[size_t(rank) - 1]);
  }
  for (int i = 1; i <= kAsked; ++i) sample.answers.push_back(codes[size_t(i)]);
  shuffle(entries, words.random());
  sample.context = fmt::format(
      "The text below is written in code words; the dots mean nothing. Remember which code words come most often.\n{}",
      kTextStart);
  for (const std::string& entry : entries) sample.context += " " + entry;
  sample.question = "Question: dots aside, which three code words of the text come most often?";
  sample.answer_prefix = "Answer: the three code words that come most often are:";
  return sample;
}

std::string solve_fwe(const TaskSample& sample) {
  return most_frequent(sample.context, kTextStart, kAsked);
}

}  // namespace

void add_ruler_counting(std::vector<RulerTask>& tasks) {
  tasks.push_back({"cwe", 120, 1, 18, make_cwe, solve_cwe});
  tasks.push_back({"fwe", 50, 10, 4, make_fwe, solve_fwe});
}

}  // namespace kvasir
