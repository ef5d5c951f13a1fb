// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The vectors of `kvasir vector bench`: synthetic clusters or files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "vector/clustered_vectors.h"

namespace CLI {
class App;
}

namespace kvasir::cli {

struct VectorBenchData {
  ClusteredVectors clustered;
  int64_t count = 100000, queries = 1000;
  std::string base_file, query_file;  // instead of synthetic vectors
};

struct BenchVectors {
  std::string description;
  int dim = 0;
  std::vector<float> base, queries;  // [rows, dim]

  int64_t base_rows() const { return int64_t(base.size()) / dim; }
  int64_t query_rows() const { return int64_t(queries.size()) / dim; }
};

void add_vector_bench_data_flags(CLI::App& command, VectorBenchData& data);

// Without a file of queries, `queries` rows chosen by the seed are taken out of the base. Throws Error
// invalid_argument, and what read_vectors throws.
BenchVectors bench_vectors(const VectorBenchData& data, int threads);

}  // namespace kvasir::cli
