// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/asked_conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "eval/task_prompt.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

// What stands in a template for a text that is put there piece by piece. Words of no model's special tokens.
constexpr const char* kPlace = "(the text stands here)";

}  // namespace

AskedConversation asked(const Dialogue& dialogue) {
  AskedConversation conversation;
  conversation.name = "dialogue";
  conversation.opening = fmt::format("{} and {} talk with each other.\n\n", dialogue.speakers[0], dialogue.speakers[1]);
  conversation.transcript = dialogue.transcript;
  for (const Utterance& utterance : dialogue.transcript) conversation.texts.push_back(spoken_line(utterance) + "\n");
  const double length = double(std::max<size_t>(1, dialogue.transcript.size()));
  for (const DialogueQuestion& question : dialogue.questions) {
    const int64_t told = question.updated >= 0 ? question.updated : question.told;
    conversation.questions.push_back({question.text,
                                      question.answer_prefix,
                                      question.answer,
                                      question.old_answer,
                                      0,
                                      {size_t(told)},
                                      double(told) / length,
                                      false});
  }
  return conversation;
}

AskedConversation asked(const RecordedConversation& recorded) {
  AskedConversation conversation;
  conversation.name = recorded.name;
  HistoryPieces pieces = history_pieces(recorded);
  conversation.opening = std::move(pieces.opening);
  conversation.transcript = transcript_of(recorded);
  conversation.texts = std::move(pieces.utterances);
  std::map<std::string, size_t> place;
  size_t count = 0;
  for (const ConversationSession& session : recorded.sessions)
    for (const SpokenTurn& turn : session.turns) place[turn.dia_id] = count++;
  for (const ConversationQuestion& question : recorded.questions) {
    AskedQuestion one{question.text, "", question.answer, "", question.category, {}, 0, true};
    for (const std::string& evidence : question.evidence)
      if (const auto found = place.find(evidence); found != place.end()) one.told.push_back(found->second);
    if (!one.told.empty())
      one.depth = double(*std::max_element(one.told.begin(), one.told.end())) / double(std::max<size_t>(1, count));
    conversation.questions.push_back(std::move(one));
  }
  return conversation;
}

ConversationTokens::ConversationTokens(const Model& model, const AskedConversation& conversation, bool raw)
    : model_(model), chat_(uses_chat_template(model, raw)) {
  if (chat_) {
    const std::vector<Model::Message> messages = {{"user", kPlace}};
    const std::string text = model.apply_chat_template(messages, true);
    const size_t place = text.find(kPlace);
    if (place == std::string::npos)
      throw Error(ErrorCode::unsupported, "this model's chat template rewrites what a user says; give --raw");
    before_ = text.substr(0, place);
    after_ = text.substr(place + std::string(kPlace).size());
  } else {
    after_ = "\n";
  }
  const std::string start = before_ + conversation.opening;
  opening_ = tokenize_beginning(model, start, chat_);
  std::string last = start;
  for (size_t i = 0; i < conversation.texts.size(); ++i) {
    const std::string& text = conversation.texts[i];
    const std::string end = last.empty() ? "\n" : last.substr(last.size() - 1);
    turns_.push_back({conversation.transcript[i], tokenize_continuation(model, end, text, false)});
    last = text;
  }
  for (const AskedQuestion& question : conversation.questions) {
    const std::string form =
        question.brief ? "Answer in a few words, with words from the conversation: " + question.text : question.text;
    AskedTokens tokens;
    tokens.question = request(form, question.answer_prefix);
    const bool goes_on = !question.answer_prefix.empty();
    const std::string before =
        goes_on ? question.answer_prefix : after_.substr(after_.size() - std::min<size_t>(1, after_.size()));
    tokens.right_answer = tokenize_continuation(model, before, (goes_on ? " " : "") + question.answer, false);
    questions_.push_back(std::move(tokens));
  }
}

std::vector<int32_t> ConversationTokens::history() const {
  std::vector<int32_t> all = opening_;
  for (const MemoryTurn& turn : turns_) all.insert(all.end(), turn.tokens.begin(), turn.tokens.end());
  return all;
}

int64_t ConversationTokens::longest_question(int answer_tokens) const {
  size_t longest = 0;
  for (const AskedTokens& tokens : questions_)
    longest = std::max(longest, tokens.question.size() + std::max(size_t(answer_tokens), tokens.right_answer.size()));
  return int64_t(longest);
}

std::vector<int32_t> ConversationTokens::request(const std::string& request, const std::string& answer) const {
  return tokenize_continuation(model_, "\n", "\n" + request + after_ + answer, chat_);
}

}  // namespace kvasir
