// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// A long document of our own for demonstrations and speed measurements: the day book of a harbour that doesn't exist.
// It reads like prose, repeats itself as little as records do, and holds facts that are stated once and can be asked
// for later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kvasir {

// Something the document says in exactly one place.
struct PlantedFact {
  std::string sentence;  // as it stands in the text
  std::string question;
  std::string answer;  // a part of `sentence`, nowhere else in the text
  size_t offset = 0;   // of `sentence` in the text, in bytes
};

struct Document {
  std::string text;  // ASCII; days are paragraphs, separated by empty lines
  std::vector<PlantedFact> facts;
};

// The first `days` days of the book with that seed, about 130 tokens each. Deterministic on every platform; a longer
// book begins with the shorter one. There are at most kMostFacts facts, one every few days from the first day on.
Document write_document(uint64_t seed, int days);

inline constexpr int kMostFacts = 24;

}  // namespace kvasir
