// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// A conversation as EpiCache (arXiv 2509.17396) sees it: utterances in order, their texts any bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir {

struct Utterance {
  std::string speaker, text;
  bool operator==(const Utterance&) const = default;
};

using Transcript = std::vector<Utterance>;

struct LongTurns {
  std::string_view speaker = "assistant";  // whose turns are split
  size_t longest = 500;                    // bytes that stay one utterance
  size_t shortest_sentence = 11;           // bytes of an utterance of its own
};

// Assistants answer in pages, people in lines; a window of whole answers would mix topics. A turn of more than
// `longest` bytes is split where [.!?]+ stands before white space. A shorter sentence than `shortest_sentence` goes
// with the one before it (the first with the one after it), so all words stay; white space between the pieces doesn't.
Transcript split_long_turns(std::span<const Utterance> turns, const LongTurns& rule = {});

}  // namespace kvasir
