// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/terminal.h"
#include "kvasir/error.h"

namespace kvasir::cli {
namespace {

// Bytes of the character that starts with `lead`; 1 for what can't start one.
size_t character_size(unsigned char lead) {
  if (lead >= 0xf0 && lead < 0xf8) return 4;
  if (lead >= 0xe0) return lead < 0xf0 ? 3 : 1;
  return lead >= 0xc2 ? 2 : 1;
}

// Length of the longest prefix that doesn't end inside a character.
size_t complete_length(std::string_view text) {
  const size_t least = text.size() > 3 ? text.size() - 3 : 0;
  for (size_t i = text.size(); i-- > least;) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xc0) == 0x80) continue;  // inside a character; look for its start
    return i + character_size(byte) > text.size() ? i : text.size();
  }
  return text.size();
}

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  held_ += bytes;
  const size_t length = complete_length(held_);
  std::string ready = held_.substr(0, length);
  held_.erase(0, length);
  return ready;
}

std::string Utf8Stream::finish() {
  return std::exchange(held_, {});
}

std::string to_string(StopReason reason) {
  switch (reason) {
    case StopReason::end_of_text: return "end";
    case StopReason::most_tokens: return "length";
    case StopReason::context_full: return "context";
    case StopReason::interrupted: return "interrupted";
  }
  return {};
}

std::span<const float> prefill(Engine& engine, SequenceId sequence, std::span<const int32_t> tokens,
                               const InterruptGuard& interrupt) {
  const int64_t context = engine.options().context;
  const int64_t length = engine.cache().length(sequence) + int64_t(tokens.size());
  if (length > context)
    throw Error(ErrorCode::context_full,
                fmt::format("the prompt has {} tokens, the context holds {}; raise -c to {} or more, or "
                            "shorten the prompt",
                            length, context, length + 1));
  engine.cache().reserve(sequence, int64_t(tokens.size()));
  ProgressBar bar("reading the prompt", int64_t(tokens.size()));
  const size_t step = size_t(engine.options().micro_batch);
  std::span<const float> logits;
  for (size_t first = 0; first < tokens.size(); first += step) {
    if (interrupt.interrupted()) return {};
    bar.set(int64_t(first));
    logits = engine.decode(sequence, tokens.subspan(first, std::min(step, tokens.size() - first)));
  }
  return interrupt.interrupted() ? std::span<const float>() : logits;
}

Generated generate(Engine& engine, SequenceId sequence, std::span<const float> logits, Sampler& sampler, int64_t most,
                   const InterruptGuard& interrupt, const std::function<void(std::string_view)>& on_text) {
  const Model& model = engine.model();
  Generated result;
  Utf8Stream stream;
  const auto show = [&](const std::string& text) {
    result.text += text;
    if (!text.empty()) on_text(text);
  };
  const auto stopped = [&](StopReason reason) {
    result.stop = reason;
    return true;
  };
  const Stopwatch watch;
  for (bool done = most == 0 && stopped(StopReason::most_tokens); !done;) {
    const int32_t token = sampler.sample(logits);
    if (model.is_end(token)) break;
    result.tokens.push_back(token);
    show(stream.push(model.piece(token)));
    if (interrupt.interrupted())
      done = stopped(StopReason::interrupted);
    else if (most >= 0 && int64_t(result.tokens.size()) >= most)
      done = stopped(StopReason::most_tokens);
    else if (engine.cache().length(sequence) >= engine.options().context)
      done = stopped(StopReason::context_full);
    if (done) break;
    logits = engine.decode(sequence, {&token, 1});
    ++result.steps;
    ++result.fed;
  }
  result.seconds = watch.seconds();
  show(stream.finish());
  return result;
}

}  // namespace kvasir::cli
