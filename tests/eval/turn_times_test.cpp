// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/turn_times.h"

#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include "eval/talk_messages.h"
#include "kvasir/error.h"
#include "tests/host/tiny_gguf.h"

namespace kvasir {
namespace {

TEST(Stretches, Of300Turns) {
  EXPECT_EQ(stretches(300), (std::vector<Stretch>{{1, 25}, {26, 50}, {51, 100}, {101, 150}, {151, 200}, {201, 300}}));
}

TEST(Stretches, CoverEveryTurnOnce) {
  EXPECT_TRUE(stretches(0).empty());
  for (size_t turns = 1; turns <= 400; ++turns) {
    const std::vector<Stretch> parts = stretches(turns);
    ASSERT_LE(parts.size(), 6u);
    size_t next = 1;
    for (const Stretch& part : parts) {
      ASSERT_EQ(part.first, next) << turns;
      ASSERT_GE(part.last, part.first) << turns;
      next = part.last + 1;
    }
    ASSERT_EQ(next, turns + 1);
  }
}

TEST(TurnTimes, MediansAndMeans) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({4, 1, 100, 2}), 3);
  EXPECT_EQ(mean({}), 0);
  const std::vector<double> values = {1, 2, 9};
  EXPECT_EQ(mean(values), 4);
  const std::span<const double> some = within(values, {2, 3});
  EXPECT_EQ(some.size(), 2u);
  EXPECT_EQ(some[0], 2);
}

TEST(TurnTimes, ATurnIsTheSumOfItsParts) {
  TurnCost turn;
  turn.prepare = 1;
  turn.read = 2;
  turn.generate = 4;
  turn.finish = 8;
  EXPECT_EQ(turn.total(), 15);
  EXPECT_EQ(turn.first_token(), 3);
  EXPECT_EQ(turn.rebuild(), 0);
  turn.selected = true;
  EXPECT_EQ(turn.rebuild(), 1);
  EXPECT_EQ(turn_seconds({"", {turn, turn}}), (std::vector<double>{15, 15}));
}

// One grows with the talk, the other costs the same each turn and once much more.
struct Pair {
  std::vector<double> growing, flat;
  explicit Pair(size_t turns) : growing(turns), flat(turns, 50) {
    std::iota(growing.begin(), growing.end(), 1.0);
    flat[9] = 500;
  }
};

TEST(BreakEven, WhereTheMedianCrosses) {
  const Pair pair(100);
  // The median of turns t-4 to t is t-2 for the one, 50 for the other, which a rebuilding doesn't move.
  EXPECT_EQ(break_even_by_median(pair.flat, pair.growing, 5), 53u);
  EXPECT_EQ(break_even_by_median(pair.growing, pair.flat, 5), std::nullopt);
  EXPECT_EQ(break_even_by_median(pair.flat, pair.growing, 101), std::nullopt);
  // Never before the window is full.
  const std::vector<double> less(30, 1), more(30, 2);
  EXPECT_EQ(break_even_by_median(less, more), kBreakEvenWindow);
}

TEST(BreakEven, WhereTheTotalsCross) {
  const Pair pair(200);
  // t (t + 1) / 2 > 50 t + 450 from t = 108 on.
  EXPECT_EQ(break_even_by_total(pair.flat, pair.growing), 108u);
  EXPECT_EQ(break_even_by_total(Pair(100).flat, Pair(100).growing), std::nullopt);
  EXPECT_EQ(break_even_by_total({}, {}), std::nullopt);
}

// Cheaper at first, and not in the end, is no break-even; equal is not cheaper.
TEST(BreakEven, HoldsToTheEnd) {
  const std::vector<double> ours = {1, 1, 9, 1, 1}, theirs = {2, 2, 2, 2, 2};
  EXPECT_EQ(break_even_by_total(ours, theirs), std::nullopt);
  EXPECT_EQ(break_even_by_median(ours, theirs, 1), 4u);
  EXPECT_EQ(break_even_by_total(theirs, theirs), std::nullopt);
}

TEST(TalkMessages, ADialogueOfAnyLength) {
  for (const size_t count : {1, 5, 300}) {
    const std::vector<std::string> messages = dialogue_messages(count, 7);
    ASSERT_EQ(messages.size(), count);
    for (const std::string& message : messages) EXPECT_FALSE(message.empty());
    EXPECT_EQ(messages, dialogue_messages(count, 7));
    EXPECT_NE(messages, dialogue_messages(count, 8));
  }
}

TEST(TalkMessages, OfARecordedConversation) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.file("talk.json")) << R"({"conversation": {"speaker_a": "A", "speaker_b": "B",
    "session_1_date_time": "noon", "session_1": [{"speaker": "A", "dia_id": "D1:1", "text": "one"},
    {"speaker": "B", "dia_id": "D1:2", "text": " "}, {"speaker": "A", "dia_id": "D1:3", "text": "two"}]}, "qa": []})";
  EXPECT_EQ(recorded_messages(folder.file("talk.json"), 2), (std::vector<std::string>{"one", "two"}));
  EXPECT_THROW(recorded_messages(folder.file("talk.json"), 3), Error);
  EXPECT_THROW(recorded_messages(folder.file("none.json"), 1), Error);
}

}  // namespace
}  // namespace kvasir
