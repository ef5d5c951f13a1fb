// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/episodic_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "episode/word_encoder.h"
#include "kvasir/error.h"
#include "tests/host/logits.h"
#include "tests/host/tiny_gguf.h"

namespace kvasir {
namespace {

// Three subjects in turns of four utterances, over and over.
std::string spoken(int i) {
  const char* const subjects[] = {"the garden and its roses", "the harbour and its boats", "the piano and its keys"};
  return "line " + std::to_string(i) + " is about " + subjects[i / 4 % 3];
}

class EpisodicMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = test::tiny_model(folder_, {.layers = 2});
    reading_ = engine("f16");
    opening_ = model_->tokenize("Two people talk.", true, false);
  }
  std::unique_ptr<Engine> engine(const std::string& kv) const {
    EngineOptions options = test::plain_options(6000, 64, kv);
    options.cache.sink = 8;
    options.cache.recent = 32;
    return std::make_unique<Engine>(model_, options);
  }
  std::vector<MemoryTurn> turns(int first, int last) const {
    std::vector<MemoryTurn> result;
    for (int i = first; i < last; ++i) {
      const Utterance utterance{i % 2 == 0 ? "Ada" : "Ben", spoken(i)};
      result.push_back({utterance, model_->tokenize("\n" + spoken_line(utterance), false, false)});
    }
    return result;
  }
  EpisodicOptions options(int64_t budget) const {
    EpisodicOptions options;
    options.budgets.assign(2, budget);
    options.block = 128;
    options.episodes = 3;
    options.representatives = 2;
    return options;
  }
  std::vector<float> answer(Engine& engine, SequenceId sequence) const {
    const SequenceId fork = engine.cache().fork(sequence);
    const std::span<const float> logits = engine.decode(fork, model_->tokenize("What?", false, false));
    const std::vector<float> result(logits.begin(), logits.end());
    engine.cache().remove(fork);
    return result;
  }
  int64_t held(Engine& engine, SequenceId sequence) const {
    return int64_t(engine.cache().positions(sequence, 0, 0).size() + engine.cache().positions(sequence, 0, 1).size());
  }

  test::TemporaryFolder folder_;
  std::shared_ptr<Model> model_;
  std::unique_ptr<Engine> reading_;
  std::vector<int32_t> opening_;
  WordEncoder encoder_;
};

TEST_F(EpisodicMemoryTest, WithRoomForAllIsTheWholePast) {
  const auto answering = engine("f16");
  EpisodicMemory memory(*reading_, *answering, encoder_, options(5000));
  memory.read(opening_, turns(0, 24));
  ASSERT_EQ(memory.episodes().size(), 3u);
  const SequenceId plain = reading_->cache().create();
  reading_->decode(plain, opening_);
  for (const MemoryTurn& turn : turns(0, 24)) reading_->decode(plain, turn.tokens);
  const std::vector<float> expected = answer(*reading_, plain);
  for (int episode = 0; episode < 3; ++episode) {
    EXPECT_EQ(answering->cache().length(memory.sequence(episode)), memory.tokens());
    const std::vector<float> got = answer(*answering, memory.sequence(episode));
    // Other cuts into micro-batches: see engine_test.
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 4 * 4.0 * 2 / 2048.0) << i;
  }
}

TEST_F(EpisodicMemoryTest, FindsTheEpisodeAndHoldsTheBudget) {
  for (const char* kv : {"f16", "turbo3"}) {
    const auto answering = engine(kv);
    EpisodicMemory memory(*reading_, *answering, encoder_, options(100));
    memory.read(opening_, turns(0, 48));
    std::vector<int> found;
    for (const char* query : {"How are the roses?", "Did the boats leave the harbour?", "Who plays the piano?"}) {
      const EpisodicMemory::Retrieved retrieved = memory.retrieve(query);
      EXPECT_GT(retrieved.cosine, 0.1);
      EXPECT_EQ(held(*answering, retrieved.sequence), 200);
      found.push_back(retrieved.episode);
    }
    std::sort(found.begin(), found.end());
    EXPECT_EQ(found, (std::vector<int>{0, 1, 2}));
    EXPECT_EQ(reading_->cache().size().total(), 0u) << "reading leaves nothing in 16 bits";
    EXPECT_EQ(memory.bytes(), answering->cache().size().total());
  }
}

TEST_F(EpisodicMemoryTest, IsDeterministic) {
  std::vector<float> first;
  for (int round = 0; round < 2; ++round) {
    const auto answering = engine("turbo4");
    EpisodicMemory memory(*reading_, *answering, encoder_, options(80));
    memory.read(opening_, turns(0, 40));
    memory.append(memory.retrieve("How are the roses?").episode, {});
    const std::vector<float> logits = answer(*answering, memory.retrieve("Who plays the piano?").sequence);
    if (first.empty()) first = logits;
    EXPECT_EQ(logits, first);
  }
}

TEST_F(EpisodicMemoryTest, EpisodesHearWhatOthersWereTold) {
  const auto answering = engine("turbo4");
  EpisodicMemory memory(*reading_, *answering, encoder_, options(100));
  memory.read(opening_, turns(0, 24));
  const EpisodicMemory::Retrieved garden = memory.retrieve("How are the roses?");
  const std::vector<MemoryTurn> fresh = turns(24, 26);
  for (const MemoryTurn& turn : fresh) answering->decode(garden.sequence, turn.tokens);
  memory.append(garden.episode, fresh);
  EXPECT_EQ(answering->cache().length(garden.sequence), memory.tokens());
  const EpisodicMemory::Retrieved piano = memory.retrieve("Who plays the piano?");
  EXPECT_NE(piano.episode, garden.episode);
  EXPECT_EQ(piano.fed_tokens, int64_t(fresh[0].tokens.size() + fresh[1].tokens.size()));
  EXPECT_EQ(answering->cache().length(piano.sequence), memory.tokens());
  EXPECT_EQ(memory.retrieve("Who plays the piano?").fed_tokens, 0);
  EXPECT_EQ(memory.episodes().segments(), memory.record().segments.size());
}

TEST_F(EpisodicMemoryTest, OutgrownEpisodesAreSelectedFromAgain) {
  const auto answering = engine("turbo4");
  EpisodicMemory memory(*reading_, *answering, encoder_, options(100));
  memory.read(opening_, turns(0, 24));
  int64_t most = 0;
  for (int i = 24; i < 64; i += 2) {
    const EpisodicMemory::Retrieved found = memory.retrieve("How are the roses?");
    const std::vector<MemoryTurn> fresh = turns(i, i + 2);
    for (const MemoryTurn& turn : fresh) answering->decode(found.sequence, turn.tokens);
    memory.append(found.episode, fresh);
    most = std::max(most, held(*answering, found.sequence));
    EXPECT_EQ(answering->cache().length(found.sequence), memory.tokens());
  }
  EXPECT_LE(most, 2 * (100 + 128 + 120)) << "the budget, a block and the turn that passed it";
  EXPECT_GT(most, 2 * 128);
}

TEST_F(EpisodicMemoryTest, OpensAnEpisodeForSomethingNew) {
  const auto answering = engine("turbo4");
  EpisodicOptions choice = options(100);
  choice.threshold = 0.1;
  EpisodicMemory memory(*reading_, *answering, encoder_, choice);
  memory.read(opening_, turns(0, 24));
  EXPECT_FALSE(memory.retrieve("How are the roses?").opened);
  const EpisodicMemory::Retrieved found = memory.retrieve("Quantum chromodynamics!");
  EXPECT_TRUE(found.opened);
  EXPECT_EQ(memory.episodes().size(), 4u);
  EXPECT_EQ(answering->cache().length(found.sequence), memory.tokens());
  EXPECT_LT(held(*answering, found.sequence), 2 * 40) << "the opening and no turn";
  EXPECT_FALSE(memory.retrieve("Quantum chromodynamics!").opened);

  size_t largest = 0;
  for (int episode = 0; episode < 3; ++episode)
    largest = std::max(largest, answering->cache().size(memory.sequence(episode)).total());
  choice.most_bytes = 4 * largest;
  EpisodicMemory bounded(*reading_, *answering, encoder_, choice);
  bounded.read(opening_, turns(0, 24));
  EXPECT_TRUE(bounded.retrieve("Quantum chromodynamics!").opened) << "there is room for one";
  EXPECT_FALSE(bounded.retrieve("Semiconductors?").opened) << "and for no other";
}

TEST_F(EpisodicMemoryTest, AQueryThatSaysNothingStays) {
  const auto answering = engine("turbo4");
  EpisodicOptions choice = options(100);
  choice.threshold = 0.1;
  EpisodicMemory memory(*reading_, *answering, encoder_, choice);
  memory.read(opening_, turns(0, 24));
  const int boats = memory.retrieve("Did the boats leave the harbour?").episode;
  memory.append(boats, turns(24, 25));
  const EpisodicMemory::Retrieved found = memory.retrieve("Why?");
  EXPECT_FALSE(found.opened);
  EXPECT_EQ(found.episode, boats) << "what was talked about last";
}

TEST_F(EpisodicMemoryTest, PromptsHaveRoomBehindTheLastPosition) {
  const std::vector<MemoryTurn> all = turns(0, 24);
  int64_t past = int64_t(opening_.size());
  for (const MemoryTurn& turn : all) past += int64_t(turn.tokens.size());
  EngineOptions small = test::plain_options(past + 20, 64, "f16");  // fewer positions than a prompt takes
  small.cache.sink = 8;
  small.cache.recent = 32;
  Engine answering(model_, small), reading(model_, reading_options(small));
  EpisodicMemory memory(reading, answering, encoder_, options(100));
  memory.read(opening_, all);
  EXPECT_EQ(memory.tokens(), past);
  EXPECT_EQ(held(answering, memory.retrieve("How are the roses?").sequence), 200);
}

TEST_F(EpisodicMemoryTest, BeginsWithNothing) {
  const auto answering = engine("turbo4");
  EpisodicMemory memory(*reading_, *answering, encoder_, options(100));
  memory.read({}, {});
  EXPECT_EQ(memory.episodes().size(), 0u);
  EXPECT_EQ(memory.bytes(), 0u);
  const EpisodicMemory::Retrieved first = memory.retrieve("Hello?");
  EXPECT_TRUE(first.opened);
  const std::vector<MemoryTurn> fresh = turns(0, 2);
  for (const MemoryTurn& turn : fresh) answering->decode(first.sequence, turn.tokens);
  memory.append(first.episode, fresh);
  EXPECT_EQ(answering->cache().length(first.sequence), memory.tokens());

  memory.read(opening_, turns(0, 1));  // fewer utterances than a segment, fewer segments than episodes
  EXPECT_EQ(memory.episodes().size(), 1u);
  EXPECT_EQ(answering->cache().length(memory.sequence(0)), memory.tokens());
}

TEST_F(EpisodicMemoryTest, RefusesWhatCanNotBe) {
  const auto answering = engine("turbo4");
  EpisodicOptions choice = options(4);  // below the sinks
  EXPECT_THROW(EpisodicMemory(*reading_, *answering, encoder_, choice), Error);
  choice = options(100);
  choice.episodes = 0;
  EXPECT_THROW(EpisodicMemory(*reading_, *answering, encoder_, choice), Error);
  EXPECT_THROW(EpisodicMemory(*answering, *reading_, encoder_, options(100)), Error) << "reading is done in 16 bits";
  EpisodicMemory memory(*reading_, *answering, encoder_, options(100));
  memory.read(opening_, turns(0, 8));
  EXPECT_THROW(memory.append(7, turns(8, 9)), Error);
}

}  // namespace
}  // namespace kvasir
