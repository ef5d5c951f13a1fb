// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "vector/exact_search.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "vector/encoder.h"
#include "vector/scan.h"
#include "vector/top_hits.h"

namespace kvasir {
namespace {

constexpr int kGroupQueries = 64;
constexpr size_t kTileRows = 128;  // at 1536 numbers each, they stay in the second-level cache

std::vector<float> lengths_of(std::span<const float> rows, int dim) {
  std::vector<float> lengths;
  for (size_t start = 0; start < rows.size(); start += size_t(dim))
    lengths.push_back(float(std::sqrt(squared_length(rows.data() + start, dim))));
  return lengths;
}

float score_of(VectorMetric metric, float product, float query_length, float length) {
  if (metric == VectorMetric::inner_product) return product;
  if (metric == VectorMetric::l2) return 2 * product - length * length - query_length * query_length;
  const float lengths = query_length * length;
  return lengths > 0 ? product / lengths : 0.0f;
}

bool among_first(const std::vector<VectorHit>& hits, int k, int64_t id) {
  const auto end = hits.begin() + std::min<ptrdiff_t>(k, ptrdiff_t(hits.size()));
  return std::any_of(hits.begin(), end, [id](const VectorHit& hit) { return hit.id == id; });
}

}  // namespace

HitLists exact_search(std::span<const float> base, std::span<const float> queries, int dim, VectorMetric metric, int k,
                      int threads) {
  const ScanKernels& kernels = scan_kernels();
  const size_t width = size_t(dim), rows = base.size() / width, count = queries.size() / width;
  const bool plain = metric == VectorMetric::inner_product;
  const std::vector<float> lengths = plain ? std::vector<float>(rows) : lengths_of(base, dim);
  const std::vector<float> query_lengths = plain ? std::vector<float>(count) : lengths_of(queries, dim);
  HitLists results(count);
  const int groups = int((count + kGroupQueries - 1) / kGroupQueries);
  parallel_for(groups, threads, [&](int group, int) {
    const size_t first = size_t(group) * kGroupQueries, size = std::min<size_t>(kGroupQueries, count - first);
    std::vector<TopHits> hits(size, TopHits(int(std::min(size_t(k), rows))));
    std::vector<float> products(size * kTileRows);
    for (size_t from = 0; from < rows; from += kTileRows) {
      const size_t tile = std::min(kTileRows, rows - from);
      kernels.dot_tile(queries.data() + first * width, int(size), base.data() + from * width, int(tile), dim,
                       products.data());
      for (size_t q = 0; q < size; ++q)
        for (size_t i = 0; i < tile; ++i) {
          const float score = score_of(metric, products[q * tile + i], query_lengths[first + q], lengths[from + i]);
          hits[q].offer({score, uint32_t(from + i), int64_t(from + i)});
        }
    }
    for (size_t q = 0; q < size; ++q)
      for (const Candidate& best : hits[q].sorted()) results[first + q].push_back({best.id, best.score});
  });
  return results;
}

double recall_of_nearest(const HitLists& exact, const HitLists& found, int k) {
  size_t right = 0;
  for (size_t q = 0; q < exact.size(); ++q) right += among_first(found[q], k, exact[q].front().id);
  return double(right) / double(std::max<size_t>(1, exact.size()));
}

double recall(const HitLists& exact, const HitLists& found, int k) {
  size_t right = 0, all = 0;
  for (size_t q = 0; q < exact.size(); ++q) {
    const size_t true_hits = std::min(size_t(k), exact[q].size());
    all += true_hits;
    for (size_t i = 0; i < true_hits; ++i) right += among_first(found[q], k, exact[q][i].id);
  }
  return double(right) / double(std::max<size_t>(1, all));
}

}  // namespace kvasir
