// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/tune_frontier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/random.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

using Table = std::vector<std::vector<TuneCell>>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Divergences that mostly fall with the bits; with noise some dearer candidate is worse.
Table random_table(SplitMix& random, size_t units, size_t candidates, double noise) {
  Table table(units);
  for (std::vector<TuneCell>& cells : table) {
    const double share = 0.2 + random.uniform(), loudness = random.uniform();
    for (size_t i = 0; i < candidates; ++i) {
      const double bits = 2 + double(i);
      cells.push_back({share * bits, loudness * (std::pow(4.0, -bits) + noise * random.uniform())});
    }
  }
  return table;
}

// Every choice there is.
std::vector<FrontierPoint> all_choices(const Table& table) {
  std::vector<FrontierPoint> points(1);
  for (const std::vector<TuneCell>& cells : table) {
    std::vector<FrontierPoint> longer;
    for (const FrontierPoint& point : points)
      for (size_t i = 0; i < cells.size(); ++i) {
        longer.push_back(point);
        longer.back().bits += cells[i].bits;
        longer.back().kld += cells[i].kld;
        longer.back().choice.push_back(int(i));
      }
    points = std::move(longer);
  }
  return points;
}

// The divergence of the frontier's line at `bits`, which lie within it.
double line_at(const std::vector<FrontierPoint>& frontier, double bits) {
  for (size_t i = 1; i < frontier.size(); ++i) {
    const FrontierPoint &a = frontier[i - 1], &b = frontier[i];
    if (bits <= b.bits) return a.kld + (b.kld - a.kld) * (bits - a.bits) / (b.bits - a.bits);
  }
  return frontier.back().kld;
}

TEST(TuneFrontier, IsTheLowerHullOfAllChoices) {
  SplitMix random(7);
  for (const double noise : {0.0, 0.01, 0.3})
    for (int round = 0; round < 30; ++round) {
      const Table table = random_table(random, 1 + size_t(round) % 5, 4, noise);
      const std::vector<FrontierPoint> frontier = tune_frontier(table), all = all_choices(table);
      for (const FrontierPoint& point : all) {
        EXPECT_GE(point.bits, frontier.front().bits - 1e-12);
        EXPECT_GE(point.kld, frontier.back().kld - 1e-12);
        EXPECT_GE(point.kld, line_at(frontier, point.bits) - 1e-12);  // past its end the line is flat
      }
      for (const FrontierPoint& point : frontier) {
        const auto same = std::ranges::find(all, point.choice, &FrontierPoint::choice);
        ASSERT_NE(same, all.end());
        EXPECT_NEAR(same->bits, point.bits, 1e-12);
        EXPECT_NEAR(same->kld, point.kld, 1e-12);
      }
      for (size_t i = 1; i < frontier.size(); ++i) {
        EXPECT_GT(frontier[i].bits, frontier[i - 1].bits);
        EXPECT_LT(frontier[i].kld, frontier[i - 1].kld);
      }
    }
}

TEST(TuneFrontier, TheSteepestStepComesFirst) {
  const Table table = {{{1, 1.0}, {2, 0.8}, {3, 0.7}}, {{1, 5.0}, {2, 1.0}, {3, 0.9}}};
  std::vector<std::vector<int>> choices;
  for (const FrontierPoint& point : tune_frontier(table)) choices.push_back(point.choice);
  EXPECT_EQ(choices, (std::vector<std::vector<int>>{{0, 0}, {0, 1}, {1, 1}, {2, 1}, {2, 2}}));
}

TEST(TuneFrontier, CandidatesThatAreDearerAndWorseAreDropped) {
  EXPECT_EQ(convex_candidates(std::vector<TuneCell>{{2, 0.5}, {3, 0.6}, {4, 0.1}}), (std::vector<int>{0, 2}));
  EXPECT_EQ(convex_candidates(std::vector<TuneCell>{{4, 0.1}, {3, 0.1}, {2, 0.9}}), (std::vector<int>{2, 1}));
  // As many bits: the better one alone.
  EXPECT_EQ(convex_candidates(std::vector<TuneCell>{{2, 0.5}, {2, 0.4}}), (std::vector<int>{1}));
  // On the line between its neighbours: one step takes both.
  EXPECT_EQ(convex_candidates(std::vector<TuneCell>{{1, 3}, {2, 2}, {3, 1}}), (std::vector<int>{0, 2}));
}

TEST(TuneFrontier, RunsThatFailedAreNoCandidates) {
  EXPECT_EQ(convex_candidates(std::vector<TuneCell>{{2, kInfinity}, {3, 0.2}, {4, std::nan("")}}),
            (std::vector<int>{1}));
  EXPECT_THROW(tune_frontier({{{2, 0.1}}, {{2, kInfinity}}}), Error);
  EXPECT_THROW(tune_frontier({}), Error);
}

TEST(TuneFrontier, PointsForTargets) {
  const std::vector<FrontierPoint> frontier = {{2.0, 0.5, {0}}, {2.5, 0.2, {1}}, {3.0, 0.1, {2}}};
  EXPECT_EQ(point_for_bits(frontier, 2.0), 0u);
  EXPECT_EQ(point_for_bits(frontier, 2.9), 1u);
  EXPECT_EQ(point_for_bits(frontier, 2.5 - 1e-12), 1u);
  EXPECT_EQ(point_for_bits(frontier, 16), 2u);
  EXPECT_EQ(point_for_kld(frontier, 7), 0u);
  EXPECT_EQ(point_for_kld(frontier, 0.2), 1u);
  EXPECT_EQ(point_for_kld(frontier, 0.15), 2u);
  const auto message = [](auto choose) {
    try {
      choose();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string bits = message([&] { point_for_bits(frontier, 1.9); });
  EXPECT_NE(bits.find("2.000 to 3.000"), std::string::npos) << bits;
  const std::string kld = message([&] { point_for_kld(frontier, 0.05); });
  EXPECT_NE(kld.find("0.5"), std::string::npos) << kld;
  EXPECT_NE(kld.find("0.1 (at 3.000)"), std::string::npos) << kld;
}

}  // namespace
}  // namespace kvasir
