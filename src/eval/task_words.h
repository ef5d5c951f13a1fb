// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Words, numbers and identifiers for the retrieval tasks, made on the spot: no word list, the same on every platform.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "base/random.h"

namespace kvasir {

// No result is given twice by the same source, and none is a part of another of its kind: they have one length each.
class TaskWords {
 public:
  explicit TaskWords(uint64_t seed);

  std::string word();               // "velora": three open syllables
  std::string key();                // "velora-tanubi", as RULER's adjective-noun keys
  std::string number(int digits);   // doesn't start with 0
  std::string uuid();               // "0f9c3a52-…", 36 characters
  std::string letters(int count);   // lower case
  std::string variable(int count);  // upper case
  SplitMix& random() { return random_; }

 private:
  template <typename Make>
  std::string fresh(Make make);

  SplitMix random_;
  std::set<std::string> given_;
};

// Fisher-Yates with the project's own generator.
template <typename T>
void shuffle(T& items, SplitMix& random) {
  for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[size_t(random.below(i))]);
}

}  // namespace kvasir
