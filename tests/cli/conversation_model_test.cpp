// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/conversation.h"

#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "kvasir/error.h"

namespace kvasir::cli {
namespace {

class ConversationTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = new std::shared_ptr<Model>(Model::load(resolve_model("smollm2"))); }
  static void TearDownTestSuite() { delete model_; }

  static std::unique_ptr<Engine> engine(int64_t context) {
    EngineOptions options;
    options.cache.key = options.cache.value = "q8";
    options.context = context;
    return std::make_unique<Engine>(*model_, options);
  }
  static Sampler greedy() {
    SamplingFlags flags;
    flags.temperature = 0;
    return Sampler(flags);
  }
  static void ignore(std::string_view) {}

 private:
  static inline std::shared_ptr<Model>* model_ = nullptr;
};

TEST_F(ConversationTest, OnlyTheNewPartIsFed) {
  const auto host = engine(1024);
  Conversation conversation(*host, "You are brief.");
  Sampler sampler = greedy();
  const InterruptGuard interrupt;
  const Turn first = conversation.say("Say hello.", sampler, 12, interrupt, ignore);
  EXPECT_EQ(first.reused_tokens, 0u);
  EXPECT_GT(first.answer.tokens.size(), 0u);
  const Turn second = conversation.say("Once more.", sampler, 12, interrupt, ignore);
  EXPECT_EQ(second.reused_tokens, first.fed_tokens + first.answer.fed);
  EXPECT_LT(second.fed_tokens, 20u);
  EXPECT_EQ(host->cache().length(0), int64_t(second.reused_tokens + second.fed_tokens + second.answer.fed));
}

TEST_F(ConversationTest, AnInterruptedPromptIsReadAgain) {
  const auto host = engine(1024);
  Conversation conversation(*host, "");
  Sampler sampler = greedy();
  {
    const InterruptGuard interrupt;
    std::raise(SIGINT);
    const Turn turn = conversation.say("Say hello.", sampler, 12, interrupt, ignore);
    EXPECT_EQ(turn.answer.stop, StopReason::interrupted);
    EXPECT_TRUE(turn.answer.tokens.empty());
  }
  const InterruptGuard interrupt;
  const Turn again = conversation.say("Say hello.", sampler, 12, interrupt, ignore);
  EXPECT_EQ(again.reused_tokens, 0u);

  const auto fresh_host = engine(1024);
  Conversation fresh(*fresh_host, "");
  EXPECT_EQ(fresh.say("Say hello.", sampler, 12, interrupt, ignore).answer.text, again.answer.text);
}

TEST_F(ConversationTest, AnInterruptedAnswerGoesOn) {
  const auto host = engine(1024);
  Conversation conversation(*host, "");
  Sampler sampler = greedy();
  size_t held = 0;
  {
    const InterruptGuard interrupt;
    const Turn turn =
        conversation.say("Tell me a story.", sampler, 50, interrupt, [](std::string_view) { std::raise(SIGINT); });
    EXPECT_EQ(turn.answer.stop, StopReason::interrupted);
    held = turn.fed_tokens + turn.answer.fed;
  }
  const InterruptGuard interrupt;
  EXPECT_EQ(conversation.say("Go on.", sampler, 5, interrupt, ignore).reused_tokens, held);
}

TEST_F(ConversationTest, AMessageThatDoesNotFitChangesNothing) {
  const auto host = engine(96);
  Conversation conversation(*host, "");
  Sampler sampler = greedy();
  const InterruptGuard interrupt;
  const Turn first = conversation.say("Say hello.", sampler, 4, interrupt, ignore);
  std::string tale;
  for (int i = 0; i < 100; ++i) tale += "on and on ";
  EXPECT_THROW(conversation.say(tale, sampler, 4, interrupt, ignore), Error);
  const Turn next = conversation.say("Once more.", sampler, 4, interrupt, ignore);
  EXPECT_EQ(next.reused_tokens, first.fed_tokens + first.answer.fed);
}

}  // namespace
}  // namespace kvasir::cli
