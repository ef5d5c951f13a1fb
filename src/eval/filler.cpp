// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/filler.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "eval/document.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

constexpr int kDays = 600;            // about 80,000 tokens
constexpr size_t kLongest = 600;      // bytes; a text without full stops is cut between words
constexpr size_t kLongestWord = 200;  // bytes; where there is no space either, anywhere

bool is_space(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}

bool ends_sentence(char c) {
  return c == '.' || c == '!' || c == '?';
}

bool starts_character(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) != 0x80;  // UTF-8
}

}  // namespace

Filler Filler::text(std::string_view text) {
  Filler filler;
  size_t start = 0;  // of the sentence at hand
  const auto cut = [&](size_t end) {
    std::string sentence(text.substr(start, end - start));
    if (std::all_of(sentence.begin(), sentence.end(), is_space)) return;
    if (start == 0 && !is_space(sentence[0])) sentence.insert(sentence.begin(), ' ');  // it may follow the last one
    filler.sentences_.push_back(std::move(sentence));
    start = end;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const bool last = i + 1 == text.size();
    const size_t length = i + 1 - start;
    // White space belongs to the sentence that follows it.
    if (text[i] == '\n' || (length > kLongest && is_space(text[i])))
      cut(i);
    else if (last || (ends_sentence(text[i]) && is_space(text[i + 1])))
      cut(i + 1);
    else if (length > kLongest + kLongestWord && starts_character(text[i + 1]))
      cut(i + 1);
  }
  if (filler.sentences_.empty())
    throw Error(ErrorCode::invalid_argument, "the text for the haystack has no words; --text takes a file of prose");
  return filler;
}

Filler Filler::noise() {
  return text("The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.");
}

Filler Filler::document(uint64_t seed) {
  return text(write_document(seed, kDays).text);
}

Filler prose(const std::string& text, uint64_t seed) {
  return text.empty() ? Filler::document(seed) : Filler::text(text);
}

}  // namespace kvasir
