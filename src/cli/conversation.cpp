// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/conversation.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/chat_prompt.h"
#include "cli/terminal.h"
#include "kvasir/error.h"

namespace kvasir::cli {

Conversation::Conversation(Engine& engine, SequenceId sequence, ConversationState state)
    : engine_(engine), sequence_(sequence), state_(std::move(state)) {
  if (!has_chat_template(engine.model()))
    throw Error(ErrorCode::unsupported, "this model has no chat template, so it can't chat; use `kvasir run`");
}

Conversation::Conversation(Engine& engine, const std::string& system)
    : Conversation(engine, engine.cache().create(), {}) {
  if (!system.empty()) state_.messages.push_back({"system", system});
}

std::vector<int32_t> Conversation::new_tokens(const std::string& text) {
  const Model& model = engine_.model();
  const int64_t context = engine_.options().context;
  const auto check_room = [&](size_t whole) {
    if (int64_t(whole) >= context)
      throw Error(ErrorCode::context_full,
                  fmt::format("the conversation would have {} tokens, the context holds {}; start anew or "
                              "raise -c",
                              whole, context));
  };
  if (!state_.held_tokens.empty() && state_.text_is_exact && text.starts_with(state_.held_text)) {
    std::vector<int32_t> fresh = model.tokenize(text.substr(state_.held_text.size()), false, true);
    check_room(state_.held_tokens.size() + fresh.size());
    return fresh;
  }
  std::vector<int32_t> whole = tokenize_start(model, text, true);
  check_room(whole.size());
  const auto same = std::mismatch(state_.held_tokens.begin(), state_.held_tokens.end(), whole.begin(), whole.end());
  // At least one token has to be fed, or there are no logits to go on from.
  const auto common = std::min<int64_t>(same.second - whole.begin(), int64_t(whole.size()) - 1);
  int64_t kept = 0;
  if (!state_.held_tokens.empty()) kept = engine_.cache().truncate(sequence_, common);
  state_.held_tokens.assign(whole.begin(), whole.begin() + kept);
  state_.text_is_exact = false;  // until the rest has been fed
  return {whole.begin() + kept, whole.end()};
}

Turn Conversation::say(const std::string& message, Sampler& sampler, int64_t most_tokens,
                       const InterruptGuard& interrupt, const std::function<void(std::string_view)>& on_text) {
  state_.messages.push_back({"user", message});
  std::string text;
  std::vector<int32_t> fresh;
  try {
    text = engine_.model().apply_chat_template(state_.messages, true);
    fresh = new_tokens(text);
  } catch (const Error&) {
    state_.messages.pop_back();
    throw;
  }
  Turn turn;
  turn.fed_tokens = fresh.size();
  turn.reused_tokens = state_.held_tokens.size();
  const Stopwatch watch;
  std::span<const float> logits;
  try {
    logits = prefill(engine_, sequence_, fresh, interrupt);
  } catch (const Error&) {
    state_.messages.pop_back();
    throw;
  }
  turn.prefill_seconds = watch.seconds();
  state_.held_tokens.insert(state_.held_tokens.end(), fresh.begin(), fresh.end());
  state_.held_tokens.resize(size_t(engine_.cache().length(sequence_)));  // shorter if interrupted
  state_.held_text = text;
  state_.text_is_exact = !logits.empty();
  turn.answer.stop = StopReason::interrupted;
  if (logits.empty()) {
    state_.messages.pop_back();  // the model never saw all of it
    return turn;
  }
  turn.answer = generate(engine_, sequence_, logits, sampler, most_tokens, interrupt, on_text);

  const Generated& answer = turn.answer;
  state_.messages.push_back({"assistant", answer.text});
  for (size_t i = 0; i < answer.fed; ++i) {
    state_.held_tokens.push_back(answer.tokens[i]);
    const std::string piece = engine_.model().piece(answer.tokens[i]);
    if (piece.empty()) state_.text_is_exact = false;  // a control token, which the text doesn't show
    state_.held_text += piece;
  }
  return turn;
}

}  // namespace kvasir::cli
