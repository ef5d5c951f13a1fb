// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "episode/episodes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "episode/patched_prompt.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

using Vectors = std::vector<std::vector<float>>;

std::vector<float> direction(double degrees) {
  const double radians = degrees * 3.14159265358979 / 180;
  return {float(std::cos(radians)), float(std::sin(radians))};
}

Vectors directions(std::initializer_list<double> degrees) {
  Vectors vectors;
  for (const double angle : degrees) vectors.push_back(direction(angle));
  return vectors;
}

EpisodeOptions of_episodes(int episodes) {
  EpisodeOptions options;
  options.episodes = episodes;
  return options;
}

TEST(Episodes, MembersCentroidsAndRepresentatives) {
  const Episodes episodes(directions({0, 100, 12, 90, 30, 92, 15}), of_episodes(2));
  ASSERT_EQ(episodes.size(), 2u);
  EXPECT_EQ(episodes.members(0), (std::vector<size_t>{0, 2, 4, 6}));
  EXPECT_EQ(episodes.members(1), (std::vector<size_t>{1, 3, 5}));
  EXPECT_EQ(episodes.episode_of_segment(), (std::vector<int>{0, 1, 0, 1, 0, 1, 0}));
  // The mean direction is about 14 degrees: 15 is the closest, then 12; the rest in the order of the conversation.
  EXPECT_EQ(episodes.representatives(0, 1), (std::vector<size_t>{6}));
  EXPECT_EQ(episodes.representatives(0, 2), (std::vector<size_t>{2, 6}));
  EXPECT_EQ(episodes.representatives(0), (std::vector<size_t>{0, 2, 4, 6}));
  EXPECT_TRUE(episodes.representatives(1, 0).empty());
  const float mean = (direction(100)[0] + direction(90)[0] + direction(92)[0]) / 3;
  EXPECT_NEAR(episodes.centroid(1)[0], mean, 1e-7);
}

TEST(Episodes, RepresentativesAreTheBruteForceOnes) {
  SplitMix random(4);
  Vectors vectors(60, std::vector<float>(12));
  for (auto& vector : vectors)
    for (float& x : vector) x = float(random.normal());
  const Episodes episodes(vectors, of_episodes(3));
  for (int e = 0; e < 3; ++e) {
    const std::vector<float> centroid = episodes.centroid(e);
    const auto cosine = [&](size_t i) {
      double product = 0, square = 0;
      for (size_t d = 0; d < 12; ++d) {
        product += double(vectors[i][d]) * double(centroid[d]);
        square += double(vectors[i][d]) * double(vectors[i][d]);
      }
      return product / std::sqrt(square);
    };
    const std::vector<size_t> chosen = episodes.representatives(e);
    EXPECT_TRUE(std::is_sorted(chosen.begin(), chosen.end()));
    double least = 1e9;
    for (const size_t i : chosen) least = std::min(least, cosine(i));
    size_t closer = 0;
    for (const size_t i : episodes.members(e)) closer += cosine(i) >= least;
    EXPECT_EQ(closer, chosen.size());
  }
}

// With the plain dot product, the tight episode at 0 degrees would win over the wide one around 90.
TEST(Episodes, MatchIsACosineNotADotProduct) {
  const Episodes episodes = Episodes::restore(directions({0, 0, 40, 140}), std::vector<int>{0, 0, 1, 1});
  const EpisodeMatch match = episodes.match(direction(50));
  EXPECT_EQ(match.episode, 1);
  EXPECT_NEAR(match.cosine, std::cos(40 * 3.14159265358979 / 180), 1e-6);
}

TEST(Episodes, PlacedByTheThreshold) {
  Episodes episodes;
  EXPECT_EQ(episodes.match(direction(0)).episode, -1);
  EXPECT_EQ(episodes.place(direction(0), 0.5).episode, 0);   // the first one opens the first episode
  EXPECT_EQ(episodes.place(direction(50), 0.5).episode, 0);  // cos 50 = .64
  EXPECT_EQ(episodes.place(direction(86), 0.5).episode, 1);  // 61 degrees off the new centroid
  EXPECT_EQ(episodes.place(direction(95), 0.5).episode, 1);
  EXPECT_EQ(episodes.place(direction(270), -1.0).episode, 0);
  EXPECT_EQ(episodes.members(0), (std::vector<size_t>{0, 1, 4}));
  EXPECT_EQ(episodes.segments(), 5u);
}

TEST(Episodes, RestoredIsTheSameToTheBit) {
  SplitMix random(8);
  Vectors vectors(50, std::vector<float>(20));
  for (auto& vector : vectors)
    for (float& x : vector) x = float(random.normal());
  Episodes episodes(Vectors(vectors.begin(), vectors.begin() + 30), of_episodes(4));
  for (size_t i = 30; i < 50; ++i) episodes.place(vectors[i], 0.3);
  const Episodes again = Episodes::restore(vectors, episodes.episode_of_segment());
  ASSERT_EQ(again.size(), episodes.size());
  EXPECT_GT(again.size(), 4u);
  for (int e = 0; e < int(again.size()); ++e) {
    EXPECT_EQ(again.centroid(e), episodes.centroid(e));
    EXPECT_EQ(again.representatives(e), episodes.representatives(e));
  }
  EXPECT_EQ(again.match(vectors[7]).cosine, episodes.match(vectors[7]).cosine);
}

TEST(Episodes, FewSegments) {
  EXPECT_EQ(Episodes({}, of_episodes(4)).size(), 0u);
  EXPECT_EQ(Episodes(directions({10}), of_episodes(4)).size(), 1u);
  EXPECT_EQ(Episodes(directions({10, 80, 200}), of_episodes(4)).size(), 3u);
  EXPECT_EQ(Episodes(Vectors(5, {0, 0}), of_episodes(2)).match(direction(1)).cosine, 0);
}

TEST(Episodes, RefusesAndStaysAsItWas) {
  Episodes episodes(directions({0, 90}), of_episodes(2));
  const std::vector<float> broken = {1, std::nanf("")}, longer = {1, 0, 0};
  for (const std::vector<float>& wrong : {broken, longer, std::vector<float>{}}) {
    EXPECT_THROW(episodes.match(wrong), Error);
    EXPECT_THROW(episodes.append(0, wrong), Error);
    EXPECT_THROW(episodes.open(wrong), Error);
    EXPECT_THROW(episodes.place(wrong, 0.5), Error);
  }
  EXPECT_THROW(episodes.append(2, direction(1)), Error);
  EXPECT_THROW(episodes.centroid(-1), Error);
  EXPECT_THROW(Episodes::restore(directions({0, 1}), std::vector<int>{0}), Error);
  EXPECT_THROW(Episodes::restore(directions({0, 1}), std::vector<int>{0, 2}), Error);
  EXPECT_EQ(episodes.size(), 2u);
  EXPECT_EQ(episodes.segments(), 2u);
}

TEST(PatchedPrompt, RequestThenExcerpts) {
  const std::vector<TranscriptSegment> segments =
      make_segments(Transcript{{"Ada", "one"}, {"Ben", "two"}, {"Ada", "three"}, {"Ben", "four"}, {"Ada", "five"}}, 2);
  const std::vector<size_t> chosen = {0, 2};
  EXPECT_EQ(episode_excerpts(segments, chosen), "Ada said, \"one\"\nBen said, \"two\"\n\nAda said, \"five\"");
  const std::string prompt = patched_prompt(segments, chosen);
  EXPECT_TRUE(prompt.starts_with("\n\n" + std::string(episode_request())));
  EXPECT_TRUE(prompt.ends_with("\n\n" + episode_excerpts(segments, chosen)));
  EXPECT_EQ(episode_excerpts(segments, {}), "");
  const std::vector<size_t> wrong = {3};
  EXPECT_THROW(episode_excerpts(segments, wrong), Error);
}

}  // namespace
}  // namespace kvasir
