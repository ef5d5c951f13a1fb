// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "vector/rescore.h"

#include <algorithm>

namespace kvasir {
namespace {

float stored_score(const VectorIndexImpl& index, const PreparedQuery& query, uint32_t position) {
  const ScanKernels& kernels = scan_kernels();
  const int dim = index.options.dim;
  const uint8_t* row = index.stored.get().data() + size_t(position) * index.stored_bytes();
  const bool halves = index.options.rerank == RerankStore::f16;
  const float product = halves ? kernels.dot_f16(reinterpret_cast<const uint16_t*>(row), query.plain.data(), dim)
                               : kernels.dot(reinterpret_cast<const float*>(row), query.plain.data(), dim);
  if (index.options.metric == VectorMetric::inner_product) return product;
  const float length = index.lengths.get()[position];
  if (index.options.metric == VectorMetric::l2)
    return query.constant + 2.0f * (product - query.mean_product) - length * length;
  if (length < kSmallestLength) return 0.0f;
  return halves ? product : product / length;
}

}  // namespace

std::vector<Candidate> rescored(const VectorIndexImpl& index, const PreparedQuery& query,
                                std::vector<Candidate> candidates) {
  for (Candidate& candidate : candidates) candidate.score = stored_score(index, query, candidate.position);
  std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.before(b); });
  return candidates;
}

}  // namespace kvasir
