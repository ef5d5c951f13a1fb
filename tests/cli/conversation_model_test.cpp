// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/conversation.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cli/kept_session.h"
#include "kvasir/error.h"
#include "tests/base/temporary_folder.h"

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

// With --session, stopped after a turn and gone on in another engine: the answers of one that never stopped.
TEST_F(ConversationTest, ASessionGoesOnAsIfItHadNeverStopped) {
  const kvasir::test::TemporaryFolder folder;
  setenv("KVASIR_SESSION_DIR", folder.file("sessions").c_str(), 1);
  const InterruptGuard interrupt;
  std::string tale = "Here is a story.";
  for (int i = 0; i < 60; ++i) tale += " Then the fox met hare number " + std::to_string(i * i) + ".";
  const std::vector<std::string> messages = {tale, "What happened?", "And then?"};
  const auto whole_host = engine(2048);
  Conversation whole(*whole_host, "You are brief.");
  for (const std::string& message : messages) {
    Sampler sampler = greedy();
    const Turn expected = whole.say(message, sampler, 12, interrupt, ignore);
    const auto host = engine(2048);
    KeptSession kept("talk");
    EXPECT_EQ(kept.resumes(), &message != &messages[0]);
    Conversation conversation = kept.conversation(*host, "You are brief.");
    Sampler again = greedy();
    const Turn turn = conversation.say(message, again, 12, interrupt, ignore);
    EXPECT_EQ(turn.answer.text, expected.answer.text);
    EXPECT_EQ(turn.reused_tokens, expected.reused_tokens);
    EXPECT_EQ(turn.fed_tokens, expected.fed_tokens);
    EXPECT_EQ(conversation.state().held_text, whole.state().held_text);
    kept.save(*host, conversation);
    EXPECT_THROW(kept.check_room(int64_t(conversation.state().held_tokens.size())), Error);
  }
  const auto host = engine(2048);
  KeptSession kept("talk");
  EXPECT_THROW(KeptSession("talk"), Error);
  EXPECT_THROW(kept.conversation(*host, "You are long."), Error);
  EXPECT_THROW(kept.raw_text(*host), Error);
  unsetenv("KVASIR_SESSION_DIR");
}

TEST_F(ConversationTest, ARawTextIsInterrupted) {
  const auto host = engine(512);
  Sampler sampler = greedy();
  RawText text(*host, host->cache().create(), {});
  {
    const InterruptGuard interrupt;
    const Turn turn =
        text.go_on("Once upon a time", sampler, 20, interrupt, [](std::string_view) { std::raise(SIGINT); });
    EXPECT_EQ(turn.answer.stop, StopReason::interrupted);
    EXPECT_TRUE(text.complete());
    EXPECT_EQ(text.state().pending.size(), 1u);
    EXPECT_EQ(int64_t(text.state().held_tokens.size()), host->cache().length(text.sequence()));
  }
  {
    const InterruptGuard interrupt;
    EXPECT_EQ(text.go_on("", sampler, 3, interrupt, ignore).answer.tokens.size(), 3u);
    EXPECT_EQ(int64_t(text.state().held_tokens.size()), host->cache().length(text.sequence()));
  }
  const RawTextState before = text.state();
  const InterruptGuard interrupt;
  std::raise(SIGINT);
  text.go_on(" and then", sampler, 3, interrupt, ignore);
  EXPECT_FALSE(text.complete());  // not to be saved
  EXPECT_EQ(text.state().held_tokens, before.held_tokens);
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
