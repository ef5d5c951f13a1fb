// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// A conversation with questions about it, wherever it came from, as texts and as tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "eval/conversation_file.h"
#include "eval/dialogue.h"
#include "host/episodic_memory.h"

namespace kvasir {

struct AskedQuestion {
  std::string text;           // the bare question, which episodes are matched by
  std::string answer_prefix;  // the beginning of the answer, given to the model; may be empty
  std::string answer, old_answer;
  int category = 0;          // of a data set
  std::vector<size_t> told;  // utterances that say it; empty: unknown
  double depth = 0;          // share of the conversation before the last of them, 0-1
  bool brief = false;        // the answer is judged by its words (F1), not by holding `answer`
};

struct AskedConversation {
  std::string name, opening;
  Transcript transcript;
  std::vector<std::string> texts;  // of each utterance, as the model reads it
  std::vector<AskedQuestion> questions;
};

AskedConversation asked(const Dialogue& dialogue);
AskedConversation asked(const RecordedConversation& conversation);

struct AskedTokens {
  std::vector<int32_t> question;      // the question, the template's end, the answer's beginning
  std::vector<int32_t> right_answer;  // goes on from there
};

// The past is one user turn of the chat template, and a question about it ends that turn.
class ConversationTokens {
 public:
  // `raw`: without the template. Throws Error unsupported for a template that llama.cpp doesn't know.
  ConversationTokens(const Model& model, const AskedConversation& conversation, bool raw);

  const std::vector<int32_t>& opening() const { return opening_; }
  const std::vector<MemoryTurn>& turns() const { return turns_; }
  const std::vector<AskedTokens>& questions() const { return questions_; }
  std::vector<int32_t> history() const;  // opening and turns
  int64_t longest_question(int answer_tokens) const;

  // What would stand behind the past if the model were asked `request` and its answer began with `answer`.
  std::vector<int32_t> request(const std::string& request, const std::string& answer) const;

 private:
  const Model& model_;
  bool chat_;
  std::string before_, after_;  // of the user's turn, as the template writes it
  std::vector<int32_t> opening_;
  std::vector<MemoryTurn> turns_;
  std::vector<AskedTokens> questions_;
};

}  // namespace kvasir
