// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Conversations of the data sets LoCoMo (arXiv 2402.17753) and RealTalk (arXiv 2502.13270), from files of the user's.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "episode/transcript.h"

namespace kvasir {

struct SpokenTurn {
  std::string speaker, text;
  std::string dia_id;   // "D3:7": the seventh of session 3
  std::string caption;  // of a picture that was shared; empty: none
};

struct ConversationSession {
  int number = 0;
  std::string date;  // as in the file
  std::vector<SpokenTurn> turns;
};

struct ConversationQuestion {
  std::string text, answer;
  int category = 0;                   // 1 several facts, 2 dates, 3 common sense, 4 one fact, 5 without an answer
  std::vector<std::string> evidence;  // dia_ids
};

enum class ConversationFormat { locomo, realtalk };

struct RecordedConversation {
  ConversationFormat format = ConversationFormat::locomo;
  std::string name;  // its own, or the file's
  std::array<std::string, 2> speakers;
  std::vector<ConversationSession> sessions;  // with turns, by number
  std::vector<ConversationQuestion> questions;
};

struct ConversationReading {
  // LoCoMo's adversarial questions (category 5), with the wrong answer that they lure to, if any, as the answer. They
  // reward a model that knows nothing, so losing the cache would score.
  bool keep_adversarial = false;
};

// The conversations of a file: one, or a list of them as in locomo10.json. Which data set it is of shows in its fields.
// Answers that are numbers become text. Throws Error not_found and io for the file, corrupt for what isn't JSON, isn't
// UTF-8, lacks a field or holds no utterance, unsupported for another layout, LoCoMo's older one among them.
std::vector<RecordedConversation> read_conversations(const std::string& path, const ConversationReading& reading = {});

// The same from a text in memory; `name` stands for the file in errors.
std::vector<RecordedConversation> parse_conversations(std::string_view text, const std::string& name,
                                                      const ConversationReading& reading = {});

// All utterances, sessions joined, dates and captions left out: what is segmented and clustered.
Transcript transcript_of(const RecordedConversation& conversation);

// What a model reads: a sentence that names the speakers, then each session under its date, a line for each turn.
std::string history_text(const RecordedConversation& conversation);

// The same in pieces: its beginning, and what each utterance of transcript_of adds.
struct HistoryPieces {
  std::string opening;
  std::vector<std::string> utterances;
};
HistoryPieces history_pieces(const RecordedConversation& conversation);

}  // namespace kvasir
