// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/episodic_conversation.h"

#include <csignal>

#include "kvasir/error.h"
#include "tests/host/chat_fixture.h"

namespace kvasir::cli {
namespace {

using kvasir::test::message;

class EpisodicConversationTest : public kvasir::test::ChatFixture {
 protected:
  static Sampler greedy() {
    SamplingFlags flags;
    flags.temperature = 0;
    return Sampler(flags);
  }
  static std::string told(EpisodicChat& chat, int i, int64_t most = 6) {
    Sampler sampler = greedy();
    const InterruptGuard interrupt;
    return cli::say(chat, message(i), sampler, most, interrupt, [](std::string_view) {}).answer.text;
  }
};

TEST_F(EpisodicConversationTest, AnInterruptedTurnLeavesNothing) {
  Side host = side("turbo4"), other_host = side("turbo4");
  EpisodicChat chat(setup(host, options()), {}), other(setup(other_host, options()), {});
  for (int i = 0; i < 12; ++i) {
    {
      Sampler sampler = greedy();
      const InterruptGuard interrupt;
      // Before anything is read (a clustering too), or in the middle of the answer.
      if (i % 2 == 0) std::raise(SIGINT);
      const EpisodicTurn turn =
          cli::say(chat, message(i + 2), sampler, 6, interrupt, [](std::string_view) { std::raise(SIGINT); });
      EXPECT_EQ(turn.answer.stop, StopReason::interrupted);
      EXPECT_EQ(turn.answer.tokens.empty(), i % 2 == 0);
    }
    EXPECT_EQ(chat.memory().record().turns, other.memory().record().turns);
    EXPECT_EQ(told(chat, i), told(other, i)) << i;
    EXPECT_EQ(chat.memory().record(), other.memory().record());
    EXPECT_EQ(host.answering->cache().size().total(), other_host.answering->cache().size().total());
  }
  EXPECT_GT(chat.memory().record().clustered_tokens, 0);
}

TEST_F(EpisodicConversationTest, ATurnThatFailsLeavesNothing) {
  EngineOptions bounded = side("turbo4").answering->options();
  bounded.cache.budget = 600'000;
  Side host = side("turbo4"), other_host = side("turbo4");
  host.answering = std::make_unique<Engine>(model_, bounded);
  EpisodicChat chat(setup(host, options()), {}), other(setup(other_host, options()), {});
  const std::string long_message(3000, 'x');
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(told(chat, i), told(other, i)) << i;
    Sampler sampler = greedy();
    const InterruptGuard interrupt;
    EXPECT_THROW(cli::say(chat, long_message, sampler, 6, interrupt, [](std::string_view) {}), Error);
    EXPECT_EQ(chat.memory().record(), other.memory().record());
    EXPECT_EQ(host.answering->cache().size().total(), other_host.answering->cache().size().total());
  }
}

// Wherever the pool's budget ends (in a message, while an episode is fed, selected from, opened, or all are read), the
// turn leaves nothing: the caches are as before, or, where reading was cut short, to be read again.
TEST_F(EpisodicConversationTest, MemoryMayEndAnywhere) {
  std::vector<size_t> failures;
  for (const size_t budget : {250'000u, 600'000u, 800'000u, 1'200'000u}) {
    EngineOptions bounded = side("turbo4").answering->options();
    bounded.cache.budget = budget;
    Side host = side("turbo4");
    host.answering = std::make_unique<Engine>(model_, bounded);
    EpisodicChat chat(setup(host, options()), {});
    size_t failed = 0;
    for (int i = 0; i < 14; ++i) {
      const MemoryRecord before = chat.memory().record();
      const size_t bytes = host.answering->cache().size().total();
      try {
        told(chat, i == 12 ? 100 : i, 3);
      } catch (const Error& error) {
        ++failed;
        EXPECT_EQ(error.code(), ErrorCode::out_of_memory) << error.what();
        EXPECT_EQ(chat.memory().record().turns, before.turns);
        if (chat.memory().episodes().size() > 0) {
          EXPECT_EQ(chat.memory().record(), before);
          EXPECT_EQ(host.answering->cache().size().total(), bytes);
        } else {
          EXPECT_EQ(host.answering->cache().size().total(), 0u);
        }
      }
      EXPECT_EQ(host.reading->cache().size().total(), 0u);
    }
    failures.push_back(failed);
  }
  EXPECT_GT(failures.front(), failures.back());
  EXPECT_GT(failures[1], 0u);
}

}  // namespace
}  // namespace kvasir::cli
