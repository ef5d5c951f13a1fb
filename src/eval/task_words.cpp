// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/task_words.h"

#include <string_view>

namespace kvasir {
namespace {

constexpr std::string_view kConsonants = "bdfgklmnprstvz", kVowels = "aeiou", kHex = "0123456789abcdef";
constexpr int kSyllables = 3;
constexpr std::string_view kUuidShape = "xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx";  // version 4: y is one of 8, 9, a, b

std::string syllables(SplitMix& random) {
  std::string word;
  for (int i = 0; i < kSyllables; ++i) {
    word += kConsonants[random.below(kConsonants.size())];
    word += kVowels[random.below(kVowels.size())];
  }
  return word;
}

std::string any_letters(SplitMix& random, int count, char first) {
  std::string text;
  for (int i = 0; i < count; ++i) text += char(first + int(random.below(26)));
  return text;
}

}  // namespace

TaskWords::TaskWords(uint64_t seed) : random_(seed) {
  random_.next();  // neighbouring seeds differ by one step of the generator
}

template <typename Make>
std::string TaskWords::fresh(Make make) {
  for (;;) {
    std::string text = make();
    if (given_.insert(text).second) return text;
  }
}

std::string TaskWords::word() {
  return fresh([this] { return syllables(random_); });
}

std::string TaskWords::key() {
  std::string first = word();
  return first + "-" + word();
}

std::string TaskWords::number(int digits) {
  return fresh([this, digits] {
    std::string text(1, char('1' + int(random_.below(9))));
    while (int(text.size()) < digits) text += char('0' + int(random_.below(10)));
    return text;
  });
}

std::string TaskWords::uuid() {
  return fresh([this] {
    std::string text(kUuidShape);
    for (char& c : text) {
      if (c == 'x') c = kHex[random_.below(16)];
      if (c == 'y') c = kHex[8 + random_.below(4)];
    }
    return text;
  });
}

std::string TaskWords::letters(int count) {
  return fresh([this, count] { return any_letters(random_, count, 'a'); });
}

std::string TaskWords::variable(int count) {
  return fresh([this, count] { return any_letters(random_, count, 'A'); });
}

}  // namespace kvasir
