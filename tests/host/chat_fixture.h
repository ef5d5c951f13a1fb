// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Chats in episodes with a tiny model, which answers nonsense of a few bytes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "episode/word_encoder.h"
#include "host/episodic_chat.h"
#include "tests/host/logits.h"
#include "tests/host/tiny_gguf.h"

namespace kvasir::test {

inline constexpr const char* kChatMl =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + "
    "'\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

inline std::string message(int i) {
  const char* const subjects[] = {"the garden and its roses", "the harbour and its boats", "the piano and its keys"};
  return "tell me " + std::to_string(i) + " about " + subjects[i / 2 % 3];
}

class ChatFixture : public ::testing::Test {
 protected:
  static constexpr int kAnswer = 6;  // tokens

  struct Side {
    std::unique_ptr<Engine> reading, answering;
    std::unique_ptr<Encoder> encoder = std::make_unique<WordEncoder>();
  };

  ChatFixture() {
    write_tiny_gguf({.layers = 2, .context = 16384, .chat_template = kChatMl}, folder_.file("model.gguf"));
    model_ = Model::load(folder_.file("model.gguf"));
  }
  Side side(const std::string& kv, int64_t context = 16384) const {
    EngineOptions options = plain_options(context, 64, kv);
    options.cache.sink = 8;
    options.cache.recent = 32;
    Side side;
    side.answering = std::make_unique<Engine>(model_, options);
    side.reading = std::make_unique<Engine>(model_, reading_options(options));
    return side;
  }
  static EpisodicOptions options(int64_t budget = 200) {
    EpisodicOptions options;
    options.budgets.assign(2, budget);
    options.block = 128;
    options.episodes = 3;
    options.representatives = 1;
    options.threshold = 0.02;
    return options;
  }
  static EpisodicSetup setup(Side& side, const EpisodicOptions& options) {
    return {*side.reading, *side.answering, *side.encoder, options};
  }

  // The likeliest tokens, so many; the last one isn't decoded, as where a limit stops an answer.
  struct Said {
    std::vector<int32_t> tokens;
    std::vector<float> logits;  // of the first
    EpisodicChat::Question question;
    bool operator==(const Said& other) const { return tokens == other.tokens && logits == other.logits; }
  };
  Said say(EpisodicChat& chat, const std::string& message) const {
    Said said;
    said.question = chat.begin_turn(message);
    Engine& engine = chat.answering();
    const SequenceId sequence = said.question.episode.sequence;
    std::span<const float> logits = engine.decode(sequence, said.question.tokens);
    said.logits.assign(logits.begin(), logits.end());
    std::string text;
    for (int i = 0; i < kAnswer; ++i) {
      const int32_t token = int32_t(std::max_element(logits.begin(), logits.begin() + 256) - logits.begin());
      said.tokens.push_back(token);
      text += model_->piece(token);
      if (i + 1 < kAnswer) logits = engine.decode(sequence, {&token, 1});
    }
    chat.finish_turn(text, said.tokens, kAnswer - 1);
    return said;
  }

  TemporaryFolder folder_;
  std::shared_ptr<Model> model_;
};

}  // namespace kvasir::test
