// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "episode/porter_stem.h"

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace kvasir {
namespace {

struct Rule {
  std::string_view suffix, replacement;
};

constexpr auto kIrregular = std::to_array<Rule>({{"skies", "sky"},
                                                 {"dying", "die"},
                                                 {"lying", "lie"},
                                                 {"tying", "tie"},
                                                 {"innings", "inning"},
                                                 {"outings", "outing"},
                                                 {"cannings", "canning"}});
constexpr auto kUnchanged = std::to_array<std::string_view>(
    {"sky", "news", "inning", "outing", "canning", "howe", "proceed", "exceed", "succeed"});

// Of the suffixes that fit, the first decides; a longer one stands before those it ends in.
constexpr auto kStep1a = std::to_array<Rule>({{"sses", "ss"}, {"ies", "i"}, {"ss", "ss"}, {"s", ""}});
constexpr auto kStep2 =
    std::to_array<Rule>({{"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"}, {"anci", "ance"}, {"izer", "ize"},
                         {"bli", "ble"},     {"alli", "al"},     {"entli", "ent"}, {"eli", "e"},     {"ousli", "ous"},
                         {"ization", "ize"}, {"ation", "ate"},   {"ator", "ate"},  {"alism", "al"},  {"iveness", "ive"},
                         {"fulness", "ful"}, {"ousness", "ous"}, {"aliti", "al"},  {"iviti", "ive"}, {"biliti", "ble"},
                         {"fulli", "ful"}});
constexpr auto kStep3 = std::to_array<Rule>(
    {{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"}, {"ical", "ic"}, {"ful", ""}, {"ness", ""}});
constexpr auto kStep4 =
    std::to_array<std::string_view>({"al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent",
                                     "ion", "ou", "ism", "ate", "iti", "ous", "ive", "ize"});

bool is_consonant(std::string_view word, size_t i) {
  bool after = false;  // of a y: whether the letter before it is a consonant
  size_t first = i;
  while (first > 0 && word[first] == 'y') --first;
  for (size_t at = first; at <= i; ++at) {
    const char c = word[at];
    if (c == 'y')
      after = at == 0 || !after;
    else
      after = c != 'a' && c != 'e' && c != 'i' && c != 'o' && c != 'u';
  }
  return after;
}

// m: how often a vowel is followed by a consonant.
int measure(std::string_view word) {
  int count = 0;
  bool vowel = false;
  for (size_t i = 0; i < word.size(); ++i) {
    const bool consonant = is_consonant(word, i);
    if (consonant && vowel) ++count;
    vowel = !consonant;
  }
  return count;
}

bool has_vowel(std::string_view word) {
  for (size_t i = 0; i < word.size(); ++i)
    if (!is_consonant(word, i)) return true;
  return false;
}

bool ends_doubled(std::string_view word) {
  const size_t n = word.size();
  return n >= 2 && word[n - 1] == word[n - 2] && is_consonant(word, n - 1);
}

// *o: consonant, vowel, consonant other than w, x and y; and, as NLTK has it, a whole word of vowel and consonant.
bool ends_short(std::string_view word) {
  const size_t n = word.size();
  if (n == 2) return !is_consonant(word, 0) && is_consonant(word, 1);
  if (n < 3) return false;
  const char last = word[n - 1];
  return is_consonant(word, n - 3) && !is_consonant(word, n - 2) && is_consonant(word, n - 1) && last != 'w' &&
         last != 'x' && last != 'y';
}

std::string_view without(std::string_view word, size_t letters) {
  return word.substr(0, word.size() - letters);
}

// Replaces the first suffix that fits where the stem's measure is at least `least`.
std::string replaced(std::string word, std::span<const Rule> rules, int least) {
  for (const auto& [suffix, replacement] : rules) {
    if (!word.ends_with(suffix)) continue;
    const std::string_view stem = without(word, suffix.size());
    return measure(stem) >= least ? std::string(stem).append(replacement) : word;
  }
  return word;
}

std::string step1a(std::string word) {
  if (word.size() == 4 && word.ends_with("ies")) return word.substr(0, 3);
  return replaced(std::move(word), kStep1a, 0);
}

std::string step1b(std::string word) {
  if (word.ends_with("ied")) return std::string(without(word, word.size() == 4 ? 1 : 2));
  if (word.ends_with("eed")) return measure(without(word, 3)) > 0 ? std::string(without(word, 1)) : word;
  const size_t suffix = word.ends_with("ed") ? 2 : word.ends_with("ing") ? 3 : 0;
  if (suffix == 0 || !has_vowel(without(word, suffix))) return word;
  word.resize(word.size() - suffix);
  if (word.ends_with("at") || word.ends_with("bl") || word.ends_with("iz")) return word + "e";
  if (ends_doubled(word)) {
    const char last = word.back();
    if (last != 'l' && last != 's' && last != 'z') word.pop_back();
    return word;
  }
  return measure(word) == 1 && ends_short(word) ? word + "e" : word;
}

std::string step1c(std::string word) {
  if (word.ends_with("y") && word.size() > 2 && is_consonant(word, word.size() - 2)) word.back() = 'i';
  return word;
}

std::string step2(std::string word) {
  while (word.ends_with("alli") && measure(without(word, 4)) > 0) word.resize(word.size() - 2);
  if (word.ends_with("logi")) return measure(without(word, 3)) > 0 ? std::string(without(word, 1)) : word;
  return replaced(std::move(word), kStep2, 1);
}

std::string step4(std::string word) {
  for (const std::string_view suffix : kStep4) {
    if (!word.ends_with(suffix)) continue;
    const std::string_view stem = without(word, suffix.size());
    const bool fits = suffix != "ion" || stem.ends_with('s') || stem.ends_with('t');
    return fits && measure(stem) > 1 ? std::string(stem) : word;
  }
  return word;
}

std::string step5(std::string word) {
  if (word.ends_with("e")) {
    const std::string_view stem = without(word, 1);
    const int m = measure(stem);
    if (m > 1 || (m == 1 && !ends_short(stem))) word.pop_back();
  }
  if (word.ends_with("ll") && measure(without(word, 1)) > 1) word.pop_back();
  return word;
}

}  // namespace

std::string porter_stem(std::string word) {
  for (const auto& [form, stem] : kIrregular)
    if (word == form) return std::string(stem);
  for (const std::string_view same : kUnchanged)
    if (word == same) return word;
  if (word.size() <= 2) return word;
  word = step1c(step1b(step1a(std::move(word))));
  return step5(step4(replaced(step2(std::move(word)), kStep3, 1)));
}

}  // namespace kvasir
