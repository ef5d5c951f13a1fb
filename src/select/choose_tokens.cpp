// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "select/choose_tokens.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "kvasir/error.h"

namespace kvasir {
namespace {

struct Candidate {
  float score;
  int32_t position;
  int head;
  size_t index;  // in its head

  // The order in which tokens are kept.
  bool operator<(const Candidate& other) const {
    if (score != other.score) return score > other.score;
    if (position != other.position) return position < other.position;
    return head < other.head;
  }
};

}  // namespace

std::vector<std::vector<int32_t>> choose_tokens(std::span<const HeadScores> heads, const ChoiceLimits& limits) {
  std::vector<std::vector<bool>> kept(heads.size());
  std::vector<Candidate> open;  // what the heads compete for
  int64_t count = 0;
  for (size_t h = 0; h < heads.size(); ++h) {
    const HeadScores& head = heads[h];
    kept[h].assign(head.positions.size(), false);
    std::vector<Candidate> own;
    int64_t recent = 0;
    for (size_t i = 0; i < head.positions.size(); ++i) {
      if (std::isnan(head.scores[i]))
        throw Error(ErrorCode::internal, "the score of position " + std::to_string(head.positions[i]) +
                                             " is no number; this sequence is broken");
      if (head.positions[i] >= limits.recent) {
        kept[h][i] = true;
        ++recent;
      } else {
        own.push_back({head.scores[i], head.positions[i], int(h), i});
      }
    }
    const auto floor = std::min<int64_t>(std::max<int64_t>(0, limits.head_floor - recent), int64_t(own.size()));
    std::partial_sort(own.begin(), own.begin() + floor, own.end());
    for (int64_t i = 0; i < floor; ++i) kept[h][own[size_t(i)].index] = true;
    open.insert(open.end(), own.begin() + floor, own.end());
    count += recent + floor;
  }
  if (count > limits.budget)
    throw Error(ErrorCode::invalid_argument,
                "a budget of " + std::to_string(limits.budget) + " tokens can't hold the " + std::to_string(count) +
                    " that are kept in any case (recent tokens and the least of each head); raise the budget");
  const int64_t rest = std::min<int64_t>(limits.budget - count, int64_t(open.size()));
  if (rest < int64_t(open.size())) std::nth_element(open.begin(), open.begin() + rest, open.end());
  for (int64_t i = 0; i < rest; ++i) kept[size_t(open[size_t(i)].head)][open[size_t(i)].index] = true;

  std::vector<std::vector<int32_t>> positions(heads.size());
  for (size_t h = 0; h < heads.size(); ++h)
    for (size_t i = 0; i < kept[h].size(); ++i)
      if (kept[h][i]) positions[h].push_back(heads[h].positions[i]);
  return positions;
}

}  // namespace kvasir
