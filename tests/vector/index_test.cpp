// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Search against brute force over what the codes decode to. A score differs from <q, decoded> only by the rounding of
// the query to 8 bits: each channel by at most half a step, at random, so by 6 sigma of step / sqrt(12) times
// |decoded|.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kvasir/vector.h"
#include "tests/vector/samples.h"
#include "vector/encoder.h"
#include "vector/exact_search.h"

namespace kvasir {
namespace {

using vector_test::normal_vectors;
using vector_test::refusal;

constexpr VectorMetric kMetrics[] = {VectorMetric::inner_product, VectorMetric::cosine, VectorMetric::l2};

VectorIndex made(int dim, int bits, VectorMetric metric, const std::vector<float>& vectors,
                 RerankStore rerank = RerankStore::none, bool center = true, VectorCode code = VectorCode::scalar) {
  VectorIndexOptions options;
  options.dim = dim;
  options.bits = bits;
  options.metric = metric;
  options.rerank = rerank;
  options.center = center;
  options.code = code;
  VectorIndex index(options);
  index.add(vectors);
  return index;
}

double product(const float* a, const float* b, int dim) {
  double sum = 0;
  for (int j = 0; j < dim; ++j) sum += double(a[j]) * double(b[j]);
  return sum;
}

void expect_scores_of_decoded(const VectorIndex& index, const std::vector<float>& originals,
                              const std::vector<float>& queries) {
  const int dim = index.options().dim;
  const VectorMetric metric = index.options().metric;
  const auto found = index.search(queries, int(index.size()));
  for (size_t q = 0; q < found.size(); ++q) {
    const float* query = &queries[q * size_t(dim)];
    const double query_length = std::sqrt(product(query, query, dim));
    ASSERT_EQ(int64_t(found[q].size()), index.size());
    for (size_t i = 0; i < found[q].size(); ++i) {
      const VectorHit& hit = found[q][i];
      if (i > 0) {
        ASSERT_GE(found[q][i - 1].score, hit.score);
      }
      const std::vector<float> decoded = index.decode(hit.id);
      const float* original = &originals[size_t(hit.id) * size_t(dim)];
      const double length = std::sqrt(product(original, original, dim)),
                   decoded_length = std::sqrt(product(decoded.data(), decoded.data(), dim));
      const double estimate = product(query, decoded.data(), dim);
      double expected = estimate, unit = query_length * decoded_length;
      if (metric == VectorMetric::cosine) {
        expected /= query_length * length;
        unit /= query_length * length;
      }
      // Relative to the mean m: -|q-m|^2 - |x-m|^2 + 2 <q-m, decoded-m> = -|q|^2 - |x|^2 + 2 <q, decoded> - 2 <m,
      // decoded - x>; the last term is the price of the mean, tested through the tolerance with center off.
      if (metric == VectorMetric::l2) {
        expected = 2 * estimate - length * length - query_length * query_length;
        unit *= 2;
      }
      // The largest rotated channel is below 5 sigma.
      const double step = 5 / std::sqrt(double(dim)) / 127;
      ASSERT_NEAR(hit.score, expected, 6 * step / std::sqrt(12.0) * unit + 1e-5 * (1 + std::abs(expected)))
          << "query " << q << ", vector " << hit.id;
    }
  }
}

TEST(VectorIndex, ScoresAreThoseOfTheDecodedVectors) {
  for (const VectorMetric metric : kMetrics)
    for (int bits = 1; bits <= 4; ++bits)
      for (const int dim : {128, 300}) {
        const std::vector<float> vectors = normal_vectors(300, dim, 1), queries = normal_vectors(9, dim, 2);
        const bool center = metric != VectorMetric::l2;
        expect_scores_of_decoded(made(dim, bits, metric, vectors, RerankStore::none, center), vectors, queries);
      }
}

TEST(VectorIndex, TrellisScoresAreThoseOfTheDecodedVectors) {
  for (const VectorMetric metric : kMetrics)
    for (const int bits : {2, 4})
      for (const int64_t count : {1, 3, 4, 5, 33, 300}) {
        constexpr int kDim = 300;
        const std::vector<float> vectors = normal_vectors(count, kDim, 1), queries = normal_vectors(9, kDim, 2);
        expect_scores_of_decoded(made(kDim, bits, metric, vectors, RerankStore::none, false, VectorCode::trellis),
                                 vectors, queries);
      }
}

TEST(VectorIndex, SizesAroundEveryBlockEdge) {
  constexpr int kDim = 48;
  for (const int64_t count : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 257}) {
    const std::vector<float> vectors = normal_vectors(count, kDim, uint64_t(count)),
                             queries = normal_vectors(3, kDim, 9);
    const VectorIndex index = made(kDim, 4, VectorMetric::inner_product, vectors);
    EXPECT_EQ(index.size(), count);
    expect_scores_of_decoded(index, vectors, queries);
    for (const int k : {1, 5, 1000}) {
      const auto found = index.search(queries, k), all = index.search(queries, int(count));
      for (size_t q = 0; q < found.size(); ++q) {
        ASSERT_EQ(int64_t(found[q].size()), std::min<int64_t>(k, count));
        EXPECT_TRUE(std::equal(found[q].begin(), found[q].end(), all[q].begin()));
      }
    }
  }
}

TEST(VectorIndex, ThreadsAndBatchesDontChangeHits) {
  constexpr int kDim = 64;
  const std::vector<float> vectors = normal_vectors(1000, kDim, 1), queries = normal_vectors(150, kDim, 2);
  for (const VectorMetric metric : kMetrics) {
    const VectorIndex index = made(kDim, 3, metric, vectors);
    const auto all = index.search(queries, 7);
    for (const int threads : {2, 3, 8}) EXPECT_EQ(index.search(queries, 7, {0, threads}), all) << threads;
    for (size_t q = 0; q < all.size(); q += 13) {
      const auto alone = index.search(std::span(queries).subspan(q * kDim, kDim), 7, {0, 4});
      EXPECT_EQ(alone[0], all[q]);
    }
  }
}

TEST(VectorIndex, AddingInPiecesOrByThreadsIsTheSame) {
  constexpr int kDim = 80;
  const std::vector<float> vectors = normal_vectors(200, kDim, 1), queries = normal_vectors(20, kDim, 2);
  for (const VectorMetric metric : kMetrics)
    for (const int bits : {1, 3, 4}) {
      const VectorCode code = bits == 4 ? VectorCode::trellis : VectorCode::scalar;
      VectorIndexOptions options{kDim, bits, code, metric, RerankStore::f16, 5, true};
      VectorIndex whole(options), pieces(options);
      whole.add(vectors, {}, 3);
      for (size_t from = 0, piece = 1; from < 200; from += piece, ++piece) {
        piece = std::min(piece, 200 - from);
        pieces.add(std::span(vectors).subspan(from * kDim, piece * kDim));
      }
      EXPECT_EQ(pieces.search(queries, 50), whole.search(queries, 50));
      EXPECT_EQ(pieces.search(queries, 10, {40, 1}), whole.search(queries, 10, {40, 1}));
      EXPECT_EQ(pieces.decode(199), whole.decode(199));
    }
}

TEST(VectorIndex, RemovalLeavesTheRest) {
  constexpr int kDim = 32;
  const std::vector<float> vectors = normal_vectors(100, kDim, 1), queries = normal_vectors(10, kDim, 2);
  for (const VectorMetric metric : kMetrics) {
    VectorIndex index = made(kDim, 4, metric, vectors, RerankStore::original, false);
    // The first, the last, a whole block, and whatever moved into the gaps.
    std::vector<int64_t> gone = {0, 99, 98, 50};
    for (int64_t id = 60; id < 97; ++id) gone.push_back(id);
    index.remove(gone);
    VectorIndex fresh(index.options());
    for (int64_t id = 0; id < 100; ++id) {
      if (std::find(gone.begin(), gone.end(), id) != gone.end()) {
        EXPECT_FALSE(index.contains(id));
        continue;
      }
      fresh.add(std::span(vectors).subspan(size_t(id) * kDim, kDim), std::vector<int64_t>{id});
      EXPECT_TRUE(index.contains(id));
    }
    EXPECT_EQ(index.size(), 59);
    EXPECT_EQ(index.search(queries, 100), fresh.search(queries, 100));
    EXPECT_EQ(index.search(queries, 5, {59, 2}), fresh.search(queries, 5, {59, 2}));
    // Ids aren't used again.
    index.add(std::span(vectors).first(kDim));
    EXPECT_TRUE(index.contains(100));
    index.remove(index.ids());
    EXPECT_EQ(index.size(), 0);
    EXPECT_TRUE(index.search(queries, 3)[0].empty());
    index.add(vectors);
    EXPECT_EQ(index.size(), 100);
  }
}

TEST(VectorIndex, ReRankingAllOriginalsIsExactSearch) {
  constexpr int kDim = 100;
  const std::vector<float> vectors = normal_vectors(500, kDim, 1), queries = normal_vectors(25, kDim, 2);
  for (const VectorMetric metric : kMetrics) {
    const HitLists exact = exact_search(vectors, queries, kDim, metric, 10, 1);
    const HitLists found = made(kDim, 1, metric, vectors, RerankStore::original).search(queries, 10, {500, 1});
    EXPECT_EQ(recall(exact, found, 10), 1.0);
    for (size_t q = 0; q < exact.size(); ++q)
      for (size_t i = 0; i < 10; ++i) {
        EXPECT_EQ(found[q][i].id, exact[q][i].id);
        EXPECT_NEAR(found[q][i].score, exact[q][i].score, 1e-3 * std::max(1.0f, std::abs(exact[q][i].score)));
      }
    const HitLists halves = made(kDim, 2, metric, vectors, RerankStore::f16).search(queries, 10, {500, 1});
    EXPECT_GT(recall(exact, halves, 10), 0.97);
    EXPECT_GT(recall(exact, halves, 10), recall(exact, made(kDim, 2, metric, vectors).search(queries, 10), 10));
  }
}

TEST(VectorIndex, TheMeanOfCrowdedVectorsIsWorthBits) {
  constexpr int kDim = 128;
  std::vector<float> vectors = normal_vectors(600, kDim, 1), queries = normal_vectors(50, kDim, 2);
  for (std::vector<float>* list : {&vectors, &queries})
    for (size_t i = 0; i < list->size(); ++i) (*list)[i] += 3.0f;  // as real embeddings: one direction common to all
  for (const VectorMetric metric : kMetrics) {
    const HitLists exact = exact_search(vectors, queries, kDim, metric, 10, 1);
    const double plain =
        recall(exact, made(kDim, 2, metric, vectors, RerankStore::none, false).search(queries, 10), 10);
    const double centered = recall(exact, made(kDim, 2, metric, vectors).search(queries, 10), 10);
    EXPECT_GT(centered, plain + 0.1);
  }
}

// With a mean subtracted: no bias, and the error that theory gives to what is left of vector and query.
TEST(VectorIndex, ScoresAroundAMeanAreUnbiased) {
  constexpr int kDim = 256, kCount = 600, kQueries = 40;
  std::vector<float> vectors = normal_vectors(kCount, kDim, 1), queries = normal_vectors(kQueries, kDim, 2);
  for (std::vector<float>* list : {&vectors, &queries})
    for (float& value : *list) value += 1.0f;
  const auto scaled = [](const float* x, double factor, const std::vector<double>& minus, double share) {
    std::vector<double> result;
    for (int j = 0; j < kDim; ++j) result.push_back(x[j] * factor - share * minus[size_t(j)]);
    return result;
  };
  const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  };
  for (const VectorMetric metric : kMetrics) {
    const bool cosine = metric == VectorMetric::cosine, l2 = metric == VectorMetric::l2;
    const auto factor = [&](const float* x) { return cosine ? 1 / std::sqrt(product(x, x, kDim)) : 1.0; };
    std::vector<double> mean(kDim), none(kDim);
    for (int i = 0; i < kCount; ++i)
      for (int j = 0; j < kDim; ++j)
        mean[size_t(j)] += double(vectors[size_t(i * kDim + j)]) * factor(&vectors[size_t(i * kDim)]) / kCount;
    const auto found = made(kDim, 4, metric, vectors).search(queries, kCount);
    double sum = 0, squares = 0;
    for (int q = 0; q < kQueries; ++q) {
      const float* query = &queries[size_t(q * kDim)];
      const std::vector<double> p = scaled(query, factor(query), mean, l2 ? 1 : 0);
      std::vector<double> rest = p;
      for (int j = 0; j < kDim; ++j) rest[size_t(j)] -= dot(p, mean) / dot(mean, mean) * mean[size_t(j)];
      for (const VectorHit& hit : found[size_t(q)]) {
        const float* x = &vectors[size_t(hit.id) * kDim];
        const std::vector<double> whole = scaled(x, factor(x), none, 0), y = scaled(x, factor(x), mean, 1);
        const double exact = l2 ? 2 * dot(p, y) - dot(p, p) - dot(y, y) : dot(p, whole);
        const double deviation = std::sqrt(0.0096 / kDim * dot(rest, rest) * dot(y, y)) * (l2 ? 2 : 1);
        const double z = (double(hit.score) - exact) / deviation;
        sum += z;
        squares += z * z;
      }
    }
    constexpr double kPairs = double(kCount) * kQueries;
    // Pairs of one query share its direction, so the mean of z is looser than 1 / sqrt(pairs).
    EXPECT_LT(std::abs(sum / kPairs), 0.05);
    EXPECT_NEAR(std::sqrt(squares / kPairs), 1.0, 0.05);
  }
}

TEST(VectorIndex, EmptyAndSingle) {
  VectorIndex index({.dim = 5});
  const std::vector<float> one = {1, 2, 3, 4, 5};
  EXPECT_EQ(index.size(), 0);
  EXPECT_EQ(index.search(one, 3).size(), 1u);
  EXPECT_TRUE(index.search(one, 3)[0].empty());
  EXPECT_TRUE(index.search({}, 3).empty());
  index.add({});
  EXPECT_EQ(index.size(), 0);
  index.add(one, std::vector<int64_t>{int64_t{1} << 40});
  const auto found = index.search(one, 3);
  ASSERT_EQ(found[0].size(), 1u);
  EXPECT_EQ(found[0][0].id, int64_t{1} << 40);
  EXPECT_NEAR(found[0][0].score, 55, 1.5);
  index.add(one);
  EXPECT_TRUE(index.contains((int64_t{1} << 40) + 1));
}

TEST(VectorIndex, ZeroVectorsScoreNothing) {
  for (const VectorMetric metric : kMetrics) {
    std::vector<float> vectors = normal_vectors(3, 16, 1);
    std::fill(vectors.begin(), vectors.begin() + 16, 0.0f);
    const VectorIndex index = made(16, 4, metric, vectors);
    const auto found = index.search(std::vector<float>(16, 0.0f), 3);
    for (const VectorHit& hit : found[0])
      if (metric != VectorMetric::l2 || hit.id == 0) {
        EXPECT_EQ(hit.score, 0.0f);
      }
  }
}

TEST(VectorIndex, RefusesWhatMakesNoSense) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  const auto expect_refused = [](const std::function<void()>& run, const std::string& word) {
    const auto [code, sentence] = refusal(run);
    EXPECT_EQ(code, ErrorCode::invalid_argument) << sentence;
    EXPECT_NE(sentence.find(word), std::string::npos) << sentence;
  };
  expect_refused([] { VectorIndex({.dim = 0}); }, "65536");
  expect_refused([] { VectorIndex({.dim = 65537}); }, "65536");
  expect_refused([] { VectorIndex({.dim = 8, .bits = 0}); }, "--bits");
  expect_refused([] { VectorIndex({.dim = 8, .bits = 5}); }, "--bits");
  expect_refused([] { VectorIndex({.dim = 8, .bits = 3, .code = VectorCode::trellis}); }, "--bits 2 or 4");

  VectorIndex index({.dim = 4});
  index.add(std::vector<float>(8, 1.0f), std::vector<int64_t>{3, 7});
  const std::vector<float> one = {1, 2, 3, 4};
  using Ids = std::vector<int64_t>;
  expect_refused([&] { index.add(std::vector<float>(7, 1.0f)); }, "whole count");
  expect_refused([&] { index.add(std::vector<float>{1, kNan, 3, 4}); }, "NaN");
  expect_refused([&] { index.add(std::vector<float>{1, kInfinity, 3, 4}); }, "NaN");
  expect_refused([&] { index.add(std::vector<float>{1e19f, 0, 3, 4}); }, "1e18");
  expect_refused([&] { index.add(one, Ids{7}); }, "id 7");
  expect_refused([&] { index.add(one, Ids{-1}); }, "-1");
  expect_refused([&] { index.add(one, Ids{INT64_MAX}); }, "2^62");
  expect_refused([&] { index.add(one, Ids{8, 9}); }, "2 ids");
  expect_refused([&] { index.add(std::vector<float>(8, 1.0f), Ids{8, 8}); }, "id 8");
  expect_refused([&] { index.add(one, {}, 0); }, "-t");
  expect_refused([&] { index.remove(Ids{3, 3}); }, "twice");
  expect_refused([&] { index.search(one, 0); }, "-k");
  expect_refused([&] { index.search(std::vector<float>(3), 1); }, "whole count");
  expect_refused([&] { index.search(std::vector<float>{kNan, 0, 0, 0}, 1); }, "NaN");
  expect_refused([&] { index.search(one, 1, {5, 1}); }, "--rerank");
  expect_refused([&] { index.search(one, 1, {0, 0}); }, "-t");
  EXPECT_EQ(refusal([&] { index.remove(Ids{3, 4}); }).code, ErrorCode::not_found);
  EXPECT_EQ(refusal([&] { index.decode(5); }).code, ErrorCode::not_found);
  EXPECT_EQ(index.size(), 2);
  EXPECT_TRUE(index.contains(3));

  VectorIndex halves({.dim = 4, .rerank = RerankStore::f16});
  expect_refused([&] { halves.add(std::vector<float>{1e5f, 0, 0, 0}); }, "original");
  halves.add(one);
  expect_refused([&] { halves.search(one, 3, {2, 1}); }, "at least -k");
}

}  // namespace
}  // namespace kvasir
