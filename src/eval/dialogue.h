// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// A dialogue of two people about many topics, for memory tests: topics return again and again, facts are told in
// passing where their topic is talked about, and some of them change later.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "episode/transcript.h"

namespace kvasir {

struct DialogueOptions {
  uint64_t seed = 42;
  int64_t utterances = 400;
  int topics = 12;  // at most dialogue_topic_limit()
  int facts = 24;
  int updates = 8;  // of the facts
};

struct DialogueQuestion {
  std::string text;           // names the topic and the speaker it is about
  std::string answer_prefix;  // "Nora's new rabbit is called"
  std::string answer;         // a word, a number or a date; no two are the same, nor is one an old answer
  std::string old_answer;     // empty where nothing changed
  int topic = 0;              // of topic_names
  int64_t told = 0;           // the utterance that tells it
  int64_t updated = -1;       // the one that replaces old_answer by answer; -1: none
};

struct Dialogue {
  std::array<std::string, 2> speakers;
  std::vector<std::string> topic_names;
  Transcript transcript;                    // the speakers take turns
  std::vector<int> topic_of;                // of each utterance
  std::vector<DialogueQuestion> questions;  // in the order in which the facts are told
};

int dialogue_topic_limit();

// Deterministic. An answer stands in one utterance, `told` or, where it changed, `updated`; an old answer in `told` and
// perhaps in `updated`. Speakers, topics, facts and answers don't depend on the length. A fact changes in a later run
// of utterances about its topic where there is one. Throws Error invalid_argument for more topics, facts or updates
// than there are, and for too few utterances for them.
Dialogue make_dialogue(const DialogueOptions& options);

}  // namespace kvasir
