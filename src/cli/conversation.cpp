// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/conversation.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/chat_prompt.h"
#include "cli/terminal.h"
#include "kvasir/error.h"

namespace kvasir::cli {

Conversation::Conversation(Engine& engine, const std::string& system)
    : engine_(engine), sequence_(engine.cache().create()) {
  if (!has_chat_template(engine.model()))
    throw Error(ErrorCode::unsupported, "this model has no chat template, so it can't chat; use `kvasir run`");
  if (!system.empty()) messages_.push_back({"system", system});
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
  if (!held_tokens_.empty() && text_is_exact_ && text.starts_with(held_text_)) {
    std::vector<int32_t> fresh = model.tokenize(text.substr(held_text_.size()), false, true);
    check_room(held_tokens_.size() + fresh.size());
    return fresh;
  }
  std::vector<int32_t> whole = tokenize_start(model, text, true);
  check_room(whole.size());
  const auto same = std::mismatch(held_tokens_.begin(), held_tokens_.end(), whole.begin(), whole.end());
  // At least one token has to be fed, or there are no logits to go on from.
  const auto common = std::min<int64_t>(same.second - whole.begin(), int64_t(whole.size()) - 1);
  int64_t kept = 0;
  if (!held_tokens_.empty()) kept = engine_.cache().truncate(sequence_, common);
  held_tokens_.assign(whole.begin(), whole.begin() + kept);
  text_is_exact_ = false;  // until the rest has been fed
  return {whole.begin() + kept, whole.end()};
}

Conversation::Turn Conversation::say(const std::string& message, Sampler& sampler, int64_t most_tokens,
                                     const InterruptGuard& interrupt,
                                     const std::function<void(std::string_view)>& on_text) {
  messages_.push_back({"user", message});
  std::string text;
  std::vector<int32_t> fresh;
  try {
    text = engine_.model().apply_chat_template(messages_, true);
    fresh = new_tokens(text);
  } catch (const Error&) {
    messages_.pop_back();
    throw;
  }
  Turn turn;
  turn.fed_tokens = fresh.size();
  turn.reused_tokens = held_tokens_.size();
  const Stopwatch watch;
  std::span<const float> logits;
  try {
    logits = prefill(engine_, sequence_, fresh, interrupt);
  } catch (const Error&) {
    messages_.pop_back();
    throw;
  }
  turn.prefill_seconds = watch.seconds();
  held_tokens_.insert(held_tokens_.end(), fresh.begin(), fresh.end());
  held_tokens_.resize(size_t(engine_.cache().length(sequence_)));  // shorter if interrupted
  held_text_ = text;
  text_is_exact_ = !logits.empty();
  turn.answer.stop = StopReason::interrupted;
  if (logits.empty()) {
    messages_.pop_back();  // the model never saw all of it
    return turn;
  }
  turn.answer = generate(engine_, sequence_, logits, sampler, most_tokens, interrupt, on_text);

  const Generated& answer = turn.answer;
  messages_.push_back({"assistant", answer.text});
  for (size_t i = 0; i < answer.fed; ++i) {
    held_tokens_.push_back(answer.tokens[i]);
    const std::string piece = engine_.model().piece(answer.tokens[i]);
    if (piece.empty()) text_is_exact_ = false;  // a control token, which the text doesn't show
    held_text_ += piece;
  }
  return turn;
}

}  // namespace kvasir::cli
