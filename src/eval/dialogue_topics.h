// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What the two speakers of a made-up dialogue talk about: words and sentences of each topic, and facts to plant in it.
#pragma once

#include <string_view>
#include <vector>

namespace kvasir {

enum class AnswerKind { name, number, colour, weekday, date };

// {new} is the answer, {old} the one that an update replaces, {who} the speaker whom it is about.
struct FactPattern {
  AnswerKind kind;
  std::string_view telling;   // first person, said by {who}
  std::string_view question;  // goes on after "Speaking of TOPIC, "
  std::string_view answer_prefix;
  std::string_view update = {};  // first person; empty for what doesn't change
};

// No line holds a colour, a weekday, a month or a digit: those are answers.
struct DialogueTopic {
  std::string_view name;
  std::vector<std::string_view> things, places, extras;  // {thing}, {place}, {extra} of the lines
  std::vector<std::string_view> openers, lines;
  std::vector<FactPattern> facts;
};

const std::vector<DialogueTopic>& dialogue_topics();

// Its two halves.
std::vector<DialogueTopic> topics_at_home();
std::vector<DialogueTopic> topics_away();

}  // namespace kvasir
