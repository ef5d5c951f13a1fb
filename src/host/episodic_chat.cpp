// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/episodic_chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "kvasir/error.h"

namespace kvasir {
namespace {

// Of an episode's snapshot beyond what its pages and windows take: section borders of each layer, and its header.
size_t file_slack(size_t layers) {
  return 4096 * (layers + 8);
}

}  // namespace

EpisodicOptions EpisodicChat::complete(EpisodicOptions options) const {
  options.prompt = [this](const std::string& request, const std::string& excerpts) {
    return answering_.model().tokenize(frame_.closing + request + frame_.answer + excerpts, false, true);
  };
  if (options.most_bytes == 0) return options;
  const Cache& cache = answering_.cache();
  const int64_t layers = int64_t(std::max<size_t>(1, options.budgets.size()));
  const int64_t budget = std::accumulate(options.budgets.begin(), options.budgets.end(), int64_t(0)) / layers + 1;
  // Pages of 64 tokens that aren't full, on each head.
  const int64_t tokens = budget + 2 * int64_t(options.block) + 64;
  const size_t one = plan_size(cache.geometry(), cache.options(), tokens).total() + file_slack(size_t(layers));
  if (one > options.most_bytes)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("one episode of {} tokens and what comes to it takes up to {} bytes, and --store-bytes is "
                            "{}: raise it, or lower --budget and --block",
                            budget, one, options.most_bytes));
  options.most_episodes = int(std::min<size_t>(options.most_bytes / one, INT32_MAX));
  options.episodes = std::min(options.episodes, options.most_episodes);
  return options;
}

EpisodicChat::EpisodicChat(const EpisodicSetup& setup, EpisodicChatState state)
    : answering_(setup.answering),
      state_(std::move(state)),
      frame_(chat_frame(setup.answering.model(), state_.system)),
      memory_(setup.reading, setup.answering, setup.encoder, complete(setup.options)) {
  memory_.read(frame_.opening_tokens(answering_.model()), {});
}

EpisodicChat::EpisodicChat(const EpisodicSetup& setup, EpisodicChatState state, MemoryRecord record,
                           std::vector<std::vector<float>> embeddings, std::vector<SequenceId> sequences)
    : answering_(setup.answering),
      state_(std::move(state)),
      frame_(chat_frame(setup.answering.model(), state_.system)),
      memory_(setup.reading, setup.answering, setup.encoder, complete(setup.options)) {
  memory_.restore(std::move(record), std::move(embeddings), std::move(sequences));
}

EpisodicChat::Question EpisodicChat::begin_turn(const std::string& message, const Progress& progress) {
  take_back();
  const Model& model = answering_.model();
  const MemoryRecord& record = memory_.record();
  Question question;
  const bool first = record.turns.empty();
  if (!first) question.tokens = state_.pending;
  const std::vector<int32_t> fresh = frame_.message_tokens(model, message, first);
  question.tokens.insert(question.tokens.end(), fresh.begin(), fresh.end());
  const int64_t length = memory_.tokens() + int64_t(question.tokens.size()), context = answering_.options().context;
  if (length >= context)
    throw Error(ErrorCode::context_full,
                fmt::format("the conversation would have {} tokens, and positions end at {} (-c; the model was trained "
                            "for {}), dropped tokens included: start anew or raise -c",
                            length, context, model.trained_context()));
  const bool unread = memory_.episodes().size() == 0 && !record.turns.empty();
  const bool due =
      record.clustered_tokens == 0 ? memory_.outgrown() : memory_.tokens() > kClusterAgain * record.clustered_tokens;
  question.clustered = unread || due;
  if (question.clustered) memory_.read(record.opening, record.turns, progress);
  question.episode = memory_.begin_turn(message);
  message_ = message;
  question_ = question;
  return question;
}

void EpisodicChat::finish_turn(const std::string& answer, std::span<const int32_t> tokens, size_t decoded) {
  if (question_.tokens.empty()) throw Error(ErrorCode::invalid_argument, "no turn has begun that could be finished");
  const std::vector<MemoryTurn> turns = {{{kUser, message_}, question_.tokens},
                                         {{kAssistant, answer}, {tokens.begin(), tokens.begin() + int64_t(decoded)}}};
  memory_.append(question_.episode.episode, turns);  // throws: the turn may still be taken back
  state_.pending.assign(tokens.begin() + int64_t(decoded), tokens.end());
  question_ = {};
}

void EpisodicChat::take_back() {
  if (question_.tokens.empty()) return;
  question_ = {};
  memory_.take_back();
}

std::vector<Model::Message> EpisodicChat::messages() const {
  std::vector<Model::Message> messages;
  if (!state_.system.empty()) messages.push_back({"system", state_.system});
  for (const MemoryTurn& turn : memory_.record().turns)
    messages.push_back({turn.utterance.speaker, turn.utterance.text});
  return messages;
}

}  // namespace kvasir
