// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/raw_text.h"

#include "cli/chat_prompt.h"
#include "cli/terminal.h"
#include "kvasir/error.h"

namespace kvasir::cli {

Turn RawText::go_on(const std::string& text, Sampler& sampler, int64_t most_tokens, const InterruptGuard& interrupt,
                    const std::function<void(std::string_view)>& on_text) {
  const Model& model = engine_.model();
  std::vector<int32_t> fresh = state_.pending;
  if (!text.empty()) {
    const std::vector<int32_t> tokens = state_.held_tokens.empty() && fresh.empty() ? tokenize_start(model, text, true)
                                                                                    : model.tokenize(text, false, true);
    fresh.insert(fresh.end(), tokens.begin(), tokens.end());
  }
  if (fresh.empty())
    throw Error(ErrorCode::invalid_argument,
                "the text ended by itself, so there is nothing to go on from: give -p TEXT");
  Turn turn;
  turn.fed_tokens = fresh.size();
  turn.reused_tokens = state_.held_tokens.size();
  const Stopwatch watch;
  const std::span<const float> logits = prefill(engine_, sequence_, fresh, interrupt);
  turn.prefill_seconds = watch.seconds();
  turn.answer.stop = StopReason::interrupted;
  complete_ = !logits.empty();
  if (!complete_) return turn;
  turn.answer = generate(engine_, sequence_, logits, sampler, most_tokens, interrupt, on_text);
  const auto& tokens = turn.answer.tokens;
  const auto fed = tokens.begin() + ptrdiff_t(turn.answer.fed);
  state_.held_tokens.insert(state_.held_tokens.end(), fresh.begin(), fresh.end());
  state_.held_tokens.insert(state_.held_tokens.end(), tokens.begin(), fed);
  state_.pending.assign(fed, tokens.end());
  return turn;
}

}  // namespace kvasir::cli
