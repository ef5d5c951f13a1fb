// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/episodic_conversation.h"

#include "cli/terminal.h"

namespace kvasir::cli {
namespace {

struct Interrupted {};  // thrown through the reading of episodes

EpisodicTurn answered(EpisodicChat& chat, const std::string& message, Sampler& sampler, int64_t most_tokens,
                      const InterruptGuard& interrupt, const std::function<void(std::string_view)>& on_text) {
  EpisodicTurn turn;
  turn.answer.stop = StopReason::interrupted;
  const Stopwatch watch;
  ProgressBar bar("reading what was said into episodes", 1000);
  const EpisodicChat::Question question = chat.begin_turn(message, [&](int64_t done, int64_t total) {
    bar.set(1000 * done / total);
    if (interrupt.interrupted()) throw Interrupted();
  });
  bar.clear();
  turn.episode = question.episode;
  turn.clustered = question.clustered;
  turn.fed_tokens = question.tokens.size() + size_t(question.episode.fed_tokens);
  turn.reused_tokens = size_t(std::max<int64_t>(0, chat.memory().tokens() - question.episode.fed_tokens));
  Engine& engine = chat.answering();
  const SequenceId sequence = question.episode.sequence;
  const std::span<const float> logits = prefill(engine, sequence, question.tokens, interrupt);
  turn.prefill_seconds = watch.seconds();
  if (logits.empty()) return turn;
  turn.answer = generate(engine, sequence, logits, sampler, most_tokens, interrupt, on_text);
  if (turn.answer.stop == StopReason::interrupted) return turn;
  chat.finish_turn(turn.answer.text, turn.answer.tokens, turn.answer.fed);
  return turn;
}

}  // namespace

EpisodicTurn say(EpisodicChat& chat, const std::string& message, Sampler& sampler, int64_t most_tokens,
                 const InterruptGuard& interrupt, const std::function<void(std::string_view)>& on_text) {
  EpisodicTurn turn;
  turn.answer.stop = StopReason::interrupted;
  try {
    turn = answered(chat, message, sampler, most_tokens, interrupt, on_text);
  } catch (const Interrupted&) {
  } catch (...) {
    chat.take_back();
    throw;
  }
  chat.take_back();  // nothing, if it was finished
  return turn;
}

}  // namespace kvasir::cli
