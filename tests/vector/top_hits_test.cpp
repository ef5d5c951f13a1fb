// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "vector/top_hits.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"

namespace kvasir {
namespace {

std::vector<Candidate> candidates(int count, uint64_t seed) {
  SplitMix random(seed);
  std::vector<Candidate> all;
  // Few different scores: ties everywhere.
  for (int i = 0; i < count; ++i)
    all.push_back({float(random.below(40)), uint32_t(i), int64_t(random.below(1u << 20))});
  return all;
}

std::vector<int64_t> ids(const std::vector<Candidate>& list) {
  std::vector<int64_t> result;
  for (const Candidate& candidate : list) result.push_back(candidate.id);
  return result;
}

TEST(TopHits, AreThoseOfASort) {
  for (const int k : {1, 2, 10, 64, 1000})
    for (const int count : {0, 1, 9, 63, 64, 65, 500, 3000}) {
      std::vector<Candidate> all = candidates(count, uint64_t(k + count));
      TopHits whole(k), left(k), right(k);
      for (int i = 0; i < count; ++i) {
        whole.offer(all[size_t(i)]);
        (i % 3 ? left : right).offer(all[size_t(i)]);
      }
      left.merge(right);
      std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.before(b); });
      all.resize(size_t(std::min(k, count)));
      EXPECT_EQ(ids(whole.sorted()), ids(all)) << k << " of " << count;
      EXPECT_EQ(ids(left.sorted()), ids(all)) << k << " of " << count;
    }
}

}  // namespace
}  // namespace kvasir
