// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/answer_f1.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "episode/porter_stem.h"

namespace kvasir {
namespace {

using Tokens = std::vector<std::string>;

constexpr auto kNumbers =
    std::to_array<std::string_view>({"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"});

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

bool is_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return result;
}

// Lower-cased words without the punctuation in them: "it's" is "its".
Tokens words_of(std::string_view text) {
  Tokens words;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  };
  for (const char c : lower(text)) {
    if (is_space(c))
      end_word();
    else if (!is_punctuation(c))
      word += c;
  }
  end_word();
  return words;
}

bool is_article(const std::string& word) {
  return word == "a" || word == "an" || word == "the";
}

Tokens plain_tokens(std::string_view text) {
  Tokens tokens = words_of(text);
  std::erase_if(tokens, is_article);
  for (std::string& token : tokens) {
    const auto number = std::find(kNumbers.begin(), kNumbers.end(), token);
    if (number != kNumbers.end()) token = std::to_string(number - kNumbers.begin());
  }
  return tokens;
}

Tokens stemmed_tokens(std::string_view text) {
  Tokens tokens = words_of(text);
  std::erase_if(tokens, [](const std::string& word) { return is_article(word) || word == "and"; });
  for (std::string& token : tokens) token = porter_stem(std::move(token));
  return tokens;
}

double f1(Tokens answer, Tokens gold) {
  std::sort(answer.begin(), answer.end());
  std::sort(gold.begin(), gold.end());
  Tokens shared;
  std::set_intersection(answer.begin(), answer.end(), gold.begin(), gold.end(), std::back_inserter(shared));
  if (shared.empty()) return 0;
  return 2.0 * double(shared.size()) / double(answer.size() + gold.size());
}

std::vector<std::string_view> comma_parts(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t start = 0; start <= text.size();) {
    const size_t comma = std::min(text.find(',', start), text.size());
    parts.push_back(text.substr(start, comma - start));
    start = comma + 1;
  }
  return parts;
}

double mean_of_best_parts(std::string_view answer, std::string_view gold) {
  std::vector<Tokens> given;
  for (const std::string_view part : comma_parts(answer)) given.push_back(stemmed_tokens(part));
  double sum = 0, count = 0;
  for (const std::string_view part : comma_parts(gold)) {
    const Tokens wanted = stemmed_tokens(part);
    double best = 0;
    for (const Tokens& tokens : given) best = std::max(best, f1(tokens, wanted));
    sum += best;
    count += 1;
  }
  return sum / count;
}

}  // namespace

double answer_f1(std::string_view answer, std::string_view gold) {
  return f1(plain_tokens(answer), plain_tokens(gold));
}

double locomo_f1(std::string_view answer, std::string_view gold, int category) {
  if (category == 1) return mean_of_best_parts(answer, gold);
  if (category == 3) gold = gold.substr(0, gold.find(';'));
  if (category == 5) {
    const std::string said = lower(answer);
    return said.find("no information available") != std::string::npos ||
           said.find("not mentioned") != std::string::npos;
  }
  return f1(stemmed_tokens(answer), stemmed_tokens(gold));
}

}  // namespace kvasir
