// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Exhaustive search. A task takes a group of queries over a span of blocks, tile by tile: codes of one tile stay in the
// second-level cache while all queries of the group pass over them, eight at a time, so memory is read once a group.
#include <algorithm>
#include <cmath>
#include <string>

#include "base/parallel.h"
#include "kvasir/error.h"
#include "vector/prepared_query.h"
#include "vector/rescore.h"
#include "vector/top_hits.h"

namespace kvasir {
namespace {

constexpr int kGroupQueries = 64;
constexpr size_t kTileBytes = size_t{256} << 10;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, what);
}

// Up to eight queries, interleaved for block_dots.
struct PackedBatch {
  int first;
  std::vector<int8_t> values;
  std::vector<int32_t> sums;

  QueryBatch view() const { return {int(sums.size()), values.data(), sums.data()}; }
};

std::vector<PackedBatch> pack(const std::vector<PreparedQuery>& queries, int first, int count) {
  std::vector<PackedBatch> batches;
  for (int from = 0; from < count; from += kBatchQueries) {
    const int size = std::min(kBatchQueries, count - from);
    PackedBatch batch{first + from, {}, {}};
    const size_t channels = queries[size_t(first)].value.size();
    for (size_t group = 0; group < channels; group += kGroupChannels)
      for (int q = 0; q < size; ++q) {
        const int8_t* value = queries[size_t(first + from + q)].value.data() + group;
        batch.values.insert(batch.values.end(), value, value + kGroupChannels);
      }
    for (int q = 0; q < size; ++q) batch.sums.push_back(queries[size_t(first + from + q)].sum);
    batches.push_back(std::move(batch));
  }
  return batches;
}

// Scores of one block for one query, and those that may get in offered to it.
void offer_block(const VectorIndexImpl& index, const PreparedQuery& query, int64_t block, const int32_t* dots,
                 TopHits& hits) {
  const size_t start = size_t(block) * kBlockVectors;
  const float* scales = index.scales.get().data() + start;
  float scores[kBlockVectors];
  for (int v = 0; v < kBlockVectors; ++v) scores[v] = query.constant + (float(dots[v]) * query.factor) * scales[v];
  if (!index.mean.empty()) {
    const float* along = index.along.get().data() + start;
    for (int v = 0; v < kBlockVectors; ++v) scores[v] += query.share * along[v];
  }
  if (index.options.metric == VectorMetric::l2) {
    const float* lengths = index.lengths.get().data() + start;
    for (int v = 0; v < kBlockVectors; ++v) scores[v] -= lengths[v] * lengths[v];
  }
  uint32_t passed = 0;
  const float threshold = hits.threshold();
  for (int v = 0; v < kBlockVectors; ++v) passed |= uint32_t(scores[v] >= threshold) << v;
  if (passed == 0) return;
  const int64_t filled = std::min<int64_t>(kBlockVectors, index.count - int64_t(start));
  for (int v = 0; v < int(filled); ++v)
    if (passed >> v & 1u) hits.offer({scores[v], uint32_t(start) + uint32_t(v), index.ids.get()[start + size_t(v)]});
}

struct Span {
  int64_t from, to;  // blocks
};

void scan(const VectorIndexImpl& index, const std::vector<PreparedQuery>& queries, int first, int count, Span blocks,
          std::vector<TopHits>& hits) {
  const ScanKernels& kernels = scan_kernels();
  const CodeTable& table = index.encoder.table();
  const size_t bytes = index.code_bytes();
  const int64_t tile = std::max<int64_t>(1, int64_t(kTileBytes / bytes));
  const std::vector<PackedBatch> batches = pack(queries, first, count);
  int32_t dots[kBatchQueries * kBlockVectors];
  for (int64_t from = blocks.from; from < blocks.to; from += tile) {
    const int64_t to = std::min(blocks.to, from + tile);
    for (const PackedBatch& batch : batches) {
      const QueryBatch view = batch.view();
      for (int64_t block = from; block < to; ++block) {
        const CodeBlock code_block = {table.bits,         index.encoder.channels(),
                                      table.trellis(),    table.offset,
                                      table.level.data(), index.codes.get().data() + size_t(block) * bytes};
        kernels.block_dots(code_block, view, dots);
        for (int q = 0; q < view.count; ++q)
          offer_block(index, queries[size_t(batch.first + q)], block, dots + q * kBlockVectors,
                      hits[size_t(batch.first - first + q)]);
      }
    }
  }
}

void check_search(const VectorIndexImpl& index, std::span<const float> queries, int k,
                  const VectorSearchOptions& options) {
  const size_t dim = size_t(index.options.dim);
  if (queries.size() % dim != 0)
    refuse("the index holds vectors of " + std::to_string(dim) + " numbers; the queries' " +
           std::to_string(queries.size()) + " numbers aren't a whole count of them");
  if (k < 1) refuse("-k takes 1 or more, got " + std::to_string(k));
  if (options.threads < 1) refuse("-t takes 1 or more threads, got " + std::to_string(options.threads));
  if (options.rerank != 0 && index.options.rerank == RerankStore::none)
    refuse("--rerank needs stored vectors: build the index with --rerank f16 or --rerank original");
  if (options.rerank != 0 && options.rerank < k)
    refuse("--rerank takes 0 or at least -k, got " + std::to_string(options.rerank) + " for -k " + std::to_string(k));
  for (size_t i = 0; i < queries.size() / dim; ++i) {
    const double length = std::sqrt(squared_length(queries.data() + i * dim, int(dim)));
    if (!std::isfinite(length)) refuse("query " + std::to_string(i) + " holds NaN or infinity");
    if (length > double(kLargestLength)) refuse("query " + std::to_string(i) + " is longer than 1e18");
  }
}

}  // namespace

std::vector<std::vector<VectorHit>> VectorIndex::search(std::span<const float> queries, int k,
                                                        const VectorSearchOptions& options) const {
  const VectorIndexImpl& index = *impl_;
  check_search(index, queries, k, options);
  const int count = int(queries.size() / size_t(index.options.dim));
  k = int(std::min<int64_t>(k, index.count));
  std::vector<std::vector<VectorHit>> results(static_cast<size_t>(count));
  if (k == 0 || count == 0) return results;
  const int kept = int(std::min<int64_t>(std::max(k, options.rerank), index.count));

  std::vector<PreparedQuery> prepared(static_cast<size_t>(count));
  parallel_for(count, options.threads, [&](int q, int) {
    prepared[size_t(q)] = prepare_query(index, queries.data() + size_t(q) * size_t(index.options.dim));
  });

  // Many queries are split among the threads; few queries share each span of blocks.
  const int64_t blocks = blocks_of(index.count);
  const int groups = (count + kGroupQueries - 1) / kGroupQueries;
  const int spans = groups >= options.threads ? 1 : int(std::min<int64_t>(options.threads, blocks));
  std::vector<std::vector<TopHits>> found(size_t(groups) * size_t(spans));
  parallel_for(groups * spans, options.threads, [&](int task, int) {
    const int first = task / spans * kGroupQueries, size = std::min(kGroupQueries, count - first);
    const int64_t part = task % spans;
    std::vector<TopHits>& hits = found[size_t(task)];
    hits.assign(size_t(size), TopHits(kept));
    scan(index, prepared, first, size, {blocks * part / spans, blocks * (part + 1) / spans}, hits);
  });

  parallel_for(count, options.threads, [&](int q, int) {
    const size_t group = size_t(q / kGroupQueries) * size_t(spans), in_group = size_t(q % kGroupQueries);
    TopHits hits = found[group][in_group];
    for (size_t part = 1; part < size_t(spans); ++part) hits.merge(found[group + part][in_group]);
    std::vector<Candidate> best = hits.sorted();
    if (options.rerank > 0) best = rescored(index, prepared[size_t(q)], std::move(best));
    best.resize(size_t(k));
    for (const Candidate& candidate : best) results[size_t(q)].push_back({candidate.id, candidate.score});
  });
  return results;
}

}  // namespace kvasir
