// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "episode/segments.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "kvasir/error.h"

namespace kvasir {
namespace {

Transcript numbered(size_t count) {
  Transcript transcript;
  for (size_t i = 0; i < count; ++i) transcript.push_back({i % 2 == 0 ? "Ada" : "Ben", "line " + std::to_string(i)});
  return transcript;
}

TEST(Segments, RunsOfFourAndTheRest) {
  const std::vector<TranscriptSegment> segments = make_segments(numbered(10));
  ASSERT_EQ(segments.size(), 3u);
  EXPECT_EQ(segments[1].first, 4u);
  EXPECT_EQ(segments[1].count, 4u);
  EXPECT_EQ(segments[2].first, 8u);
  EXPECT_EQ(segments[2].count, 2u);
  EXPECT_EQ(segments[2].text, "Ada said, \"line 8\"\nBen said, \"line 9\"");
}

TEST(Segments, EveryLengthCoversTheWholeTranscript) {
  for (size_t count = 0; count < 20; ++count)
    for (const int width : {1, 2, 4, 8, 100}) {
      size_t next = 0;
      for (const TranscriptSegment& segment : make_segments(numbered(count), width)) {
        EXPECT_EQ(segment.first, next);
        EXPECT_GE(segment.count, 1u);
        next += segment.count;
      }
      EXPECT_EQ(next, count);
    }
}

TEST(Segments, EmptyTranscriptAndNoWidth) {
  EXPECT_TRUE(make_segments({}).empty());
  EXPECT_THROW(make_segments(numbered(3), 0), Error);
}

TEST(Segments, BytesPassUnharmed) {
  const std::string odd("\xff\xfe\x00\xc3 \"quoted\"\n\x80", 15);
  const std::vector<TranscriptSegment> segments = make_segments(Transcript{{"\xe9ric", odd}});
  ASSERT_EQ(segments.size(), 1u);
  EXPECT_EQ(segments[0].text, "\xe9ric said, \"" + odd + "\"");
}

TEST(LongTurns, OnlyTheAssistantsAreSplitAndNoWordIsLost) {
  std::string answer;
  for (int i = 0; i < 20; ++i) answer += "This is sentence number " + std::to_string(i) + " of it?! Yes.  No. ";
  const Transcript split =
      split_long_turns(Transcript{{"user", answer}, {"assistant", "Short. Answer."}, {"assistant", answer}});
  ASSERT_EQ(split.size(), 22u);
  EXPECT_EQ(split[0].text, answer);
  EXPECT_EQ(split[1].text, "Short. Answer.");
  EXPECT_EQ(split[2].text, "This is sentence number 0 of it?! Yes.  No.");
  EXPECT_EQ(split[21].speaker, "assistant");
  EXPECT_EQ(split[21].text, "This is sentence number 19 of it?! Yes.  No.");
}

TEST(LongTurns, FullStopsInsideWordsDontSplit) {
  const std::string text = std::string(500, 'x') + ".example.org is 3.14 long";
  EXPECT_EQ(split_long_turns(Transcript{{"assistant", text}}), (Transcript{{"assistant", text}}));
}

TEST(LongTurns, ShortBeginningAndWhiteSpaceAlone) {
  const std::string sentence = "A sentence that is long enough.";
  std::string text = "Oh. " + sentence;
  for (int i = 0; i < 30; ++i) text += " " + sentence;
  const Transcript split = split_long_turns(Transcript{{"assistant", text}});
  EXPECT_EQ(split[0].text, "Oh. " + sentence);
  EXPECT_EQ(split[1].text, sentence);
  EXPECT_EQ(split.size(), 31u);
  EXPECT_EQ(split_long_turns(Transcript{{"assistant", std::string(600, ' ')}}).size(), 1u);
}

TEST(Segments, LongTranscriptsTakeLinearTime) {
  const auto seconds = [](size_t count) {
    Transcript transcript = numbered(count);
    for (Utterance& utterance : transcript) utterance.text += std::string(100, 'x');
    transcript.push_back({"assistant", std::string(count * 10, '!') + " " + std::string(count * 10, '.')});
    const auto start = std::chrono::steady_clock::now();
    EXPECT_GT(make_segments(split_long_turns(transcript)).size(), count / 4);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  seconds(1000);
  EXPECT_LT(seconds(100000), 5.0);  // 12 MB; quadratic would be hours
}

}  // namespace
}  // namespace kvasir
