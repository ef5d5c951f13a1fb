// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/episodic_chat.h"

#include "kvasir/error.h"
#include "tests/host/chat_fixture.h"

namespace kvasir {
namespace {

using EpisodicChatTest = test::ChatFixture;
using test::message;

TEST_F(EpisodicChatTest, WhatFitsIsOneEpisodeWithEverything) {
  Side host = side("f16");
  EpisodicChat chat(setup(host, options(2000)), {"Be brief.", {}});
  std::string text = "<|im_start|>system\nBe brief.<|im_end|>\n";
  for (int i = 0; i < 4; ++i) {
    const Said said = say(chat, message(i));
    EXPECT_EQ(said.question.episode.fed_tokens, 0);
    text +=
        (i == 0 ? "" : "<|im_end|>\n") + ("<|im_start|>user\n" + message(i)) + "<|im_end|>\n<|im_start|>assistant\n";
    for (const int32_t token : said.tokens) text += model_->piece(token);
  }
  EXPECT_EQ(chat.memory().episodes().size(), 1u);
  // The past is what the template would have made of it, but for the last token, which waits.
  std::string held;
  for (const int32_t token : chat.memory().history())
    if (token != model_->bos()) held += model_->piece(token);
  for (const int32_t token : chat.state().pending) held += model_->piece(token);
  EXPECT_EQ(held, text);
  EXPECT_EQ(host.answering->cache().length(chat.memory().sequence(0)), chat.memory().tokens());
  const std::vector<Model::Message> messages = chat.messages();
  ASSERT_EQ(messages.size(), 9u);
  EXPECT_EQ(messages[0].content, "Be brief.");
  EXPECT_EQ(messages[7].content, message(3));
}

TEST_F(EpisodicChatTest, FortyTurnsStayWithinTheBound) {
  for (const char* kv : {"f16", "turbo4"}) {
    Side host = side(kv);
    const EpisodicOptions choice = options();
    EpisodicChat chat(setup(host, choice), {});
    int64_t most = 0;
    int clusterings = 0;
    for (int i = 0; i < 40; ++i) {
      const int64_t before = chat.memory().tokens();
      clusterings += say(chat, message(i)).question.clustered;
      const int64_t turn = chat.memory().tokens() - before;
      const EpisodicMemory& memory = chat.memory();
      EXPECT_EQ(memory.episodes().size() > 1, clusterings > 0);
      for (int episode = 0; episode < int(memory.episodes().size()); ++episode) {
        int64_t held = 0;
        for (int layer = 0; layer < 2; ++layer)
          for (int head = 0; head < 2; ++head)
            held += int64_t(host.answering->cache().positions(memory.sequence(episode), layer, head).size());
        EXPECT_LE(held, 4 * (200 + 128 + turn)) << kv << ", turn " << i << ", episode " << episode;
        most = std::max(most, held);
      }
      EXPECT_EQ(memory.bytes(), host.answering->cache().size().total()) << "nothing else is left behind";
    }
    EXPECT_GT(chat.memory().tokens(), 3000);
    EXPECT_GT(most, 4 * 200);
    EXPECT_GE(clusterings, 3) << "at 328 tokens, and whenever the past has doubled";
    EXPECT_LE(clusterings, 5);
  }
}

TEST_F(EpisodicChatTest, AFactOfOneEpisodeIsFedToTheOthers) {
  Side host = side("turbo4");
  EpisodicChat chat(setup(host, options()), {});
  for (int i = 0; i < 12; ++i) say(chat, message(i));
  const int64_t before = chat.memory().tokens();
  const Said told = say(chat, "the garden and its roses: the gate code is 4711");
  const int64_t turn = chat.memory().tokens() - before;
  for (const char* query : {"the harbour and its boats?", "the piano and its keys?"}) {
    const EpisodicChat::Question question = chat.begin_turn(query);
    EXPECT_FALSE(question.clustered);
    EXPECT_NE(question.episode.episode, told.question.episode.episode) << query;
    EXPECT_GE(question.episode.fed_tokens, turn);
    EXPECT_EQ(host.answering->cache().length(question.episode.sequence), chat.memory().tokens());
    chat.take_back();
  }
}

TEST_F(EpisodicChatTest, ATurnThatIsTakenBackNeverWas) {
  for (const char* kv : {"f16", "turbo4"}) {
    Side host = side(kv), other_host = side(kv);
    EpisodicChat chat(setup(host, options()), {}), other(setup(other_host, options()), {});
    for (int i = 0; i < 16; ++i) {
      const std::string away = i % 3 == 0 ? "quantum chromodynamics" : message(i + 2);
      const EpisodicChat::Question question = chat.begin_turn(away);
      host.answering->decode(question.episode.sequence, question.tokens);
      if (i % 2 == 0) chat.take_back();  // the next turn does it too
      EXPECT_TRUE(say(chat, message(i)) == say(other, message(i))) << kv << ", turn " << i;
      EXPECT_EQ(chat.memory().record(), other.memory().record());
      EXPECT_EQ(host.answering->cache().size().total(), other_host.answering->cache().size().total());
    }
  }
}

TEST_F(EpisodicChatTest, ReadingThatIsStoppedIsDoneLater) {
  Side host = side("turbo4"), other_host = side("turbo4");
  EpisodicChat chat(setup(host, options()), {}), other(setup(other_host, options()), {});
  struct Stop {};
  bool stopped = false;
  for (int i = 0; i < 10; ++i) {
    try {
      chat.begin_turn(message(i), [](int64_t done, int64_t total) {
        if (2 * done > total) throw Stop();
      });
    } catch (const Stop&) {
      stopped = true;
      EXPECT_EQ(chat.memory().bytes(), 0u);
    }
    EXPECT_TRUE(say(chat, message(i)) == say(other, message(i))) << i;
  }
  EXPECT_TRUE(stopped);
}

TEST_F(EpisodicChatTest, BytesAreBounded) {
  Side host = side("turbo4");
  EpisodicOptions choice = options();
  choice.episodes = 8;
  choice.threshold = 0.9;  // each message is something new
  choice.most_bytes = 800'000;
  EpisodicChat chat(setup(host, choice), {});
  for (int i = 0; i < 30; ++i) {
    say(chat, message(i) + (i % 5 == 0 ? std::string(400, 'x') : ""));
    EXPECT_LE(chat.memory().bytes(), choice.most_bytes) << i;
  }
  EXPECT_GT(chat.memory().episodes().size(), 1u);
  EXPECT_LT(chat.memory().episodes().size(), 8u);
  choice.most_bytes = 20'000;
  EXPECT_THROW(EpisodicChat(setup(host, choice), {}), Error);
}

TEST_F(EpisodicChatTest, PositionsEnd) {
  Side host = side("turbo4", 400);
  EpisodicChat chat(setup(host, options()), {});
  try {
    for (int i = 0; i < 10; ++i) say(chat, message(i));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::context_full);
    EXPECT_NE(std::string(error.what()).find("trained for 16384"), std::string::npos) << error.what();
  }
  const int64_t tokens = chat.memory().tokens();
  EXPECT_THROW(chat.begin_turn(message(9)), Error);
  EXPECT_EQ(chat.memory().tokens(), tokens);
}

TEST_F(EpisodicChatTest, AModelWithoutATemplateCanNotChat) {
  test::write_tiny_gguf({.layers = 2}, folder_.file("plain.gguf"));
  model_ = Model::load(folder_.file("plain.gguf"));
  Side host = side("f16", 1024);
  EXPECT_THROW(EpisodicChat(setup(host, options()), {}), Error);
}

}  // namespace
}  // namespace kvasir
