// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "episode/transcript.h"

#include <utility>

namespace kvasir {
namespace {

// The locale's isspace would take some bytes of UTF-8 for spaces.
bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

bool ends_sentence(char c) {
  return c == '.' || c == '!' || c == '?';
}

std::vector<std::string_view> sentences(std::string_view text) {
  std::vector<std::string_view> result;
  size_t start = 0;
  const auto cut = [&](size_t end) {
    while (start < end && is_space(text[start])) ++start;
    size_t last = end;
    while (last > start && is_space(text[last - 1])) --last;
    if (last > start) result.push_back(text.substr(start, last - start));
    start = end;
  };
  for (size_t i = 0; i + 1 < text.size(); ++i)
    if (ends_sentence(text[i]) && is_space(text[i + 1])) cut(i + 1);
  cut(text.size());
  return result;
}

// Neighbours in the same text, with what stands between them.
std::string_view joined(std::string_view first, std::string_view second) {
  return {first.data(), size_t(second.data() + second.size() - first.data())};
}

}  // namespace

Transcript split_long_turns(std::span<const Utterance> turns, const LongTurns& rule) {
  Transcript result;
  result.reserve(turns.size());
  for (const Utterance& turn : turns) {
    if (turn.speaker != rule.speaker || turn.text.size() <= rule.longest) {
      result.push_back(turn);
      continue;
    }
    std::vector<std::string_view> pieces;
    for (const std::string_view sentence : sentences(turn.text)) {
      const bool joins = !pieces.empty() &&
                         (sentence.size() < rule.shortest_sentence || pieces.back().size() < rule.shortest_sentence);
      if (joins)
        pieces.back() = joined(pieces.back(), sentence);
      else
        pieces.push_back(sentence);
    }
    if (pieces.empty()) result.push_back(turn);  // white space alone
    for (const std::string_view piece : pieces) result.push_back({turn.speaker, std::string(piece)});
  }
  return result;
}

}  // namespace kvasir
