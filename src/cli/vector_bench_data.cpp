// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/vector_bench_data.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <numeric>
#include <utility>

#include "base/random.h"
#include "kvasir/error.h"
#include "vector/vector_file.h"

namespace kvasir::cli {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

BenchVectors synthetic(const VectorBenchData& data, int threads) {
  const ClusteredVectors& options = data.clustered;
  if (options.dim < 1 || options.dim > 65536) refuse(fmt::format("--dim takes 1 to 65536, got {}", options.dim));
  if (options.clusters < 1 || options.clusters > 1000000)
    refuse(fmt::format("--clusters takes 1 to 1000000, got {}", options.clusters));
  if (!(options.spread >= 0 && options.spread <= 1))
    refuse(fmt::format("--spread takes 0 to 1, got {}", options.spread));
  if (!(options.decay >= 0 && options.decay <= 10)) refuse(fmt::format("--decay takes 0 to 10, got {}", options.decay));
  if (data.count < 1 || data.count > 100'000'000) refuse(fmt::format("-n takes 1 to 100000000, got {}", data.count));
  BenchVectors vectors;
  vectors.description = fmt::format("{} clusters, spread {}, decay {}, seed {}", options.clusters, options.spread,
                                    options.decay, options.seed);
  vectors.dim = options.dim;
  vectors.base = clustered_vectors(options, 0, data.count, threads);
  vectors.queries = clustered_vectors(options, data.count, data.queries, threads);
  return vectors;
}

BenchVectors held_out(const VectorBenchData& data, const VectorFile& file) {
  if (data.queries >= file.rows)
    refuse(
        fmt::format("--queries {} leaves nothing of the {} vectors in `{}`", data.queries, file.rows, data.base_file));
  std::vector<int64_t> order(static_cast<size_t>(file.rows));
  std::iota(order.begin(), order.end(), int64_t{0});
  SplitMix random(data.clustered.seed);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[size_t(random.below(i))]);
  BenchVectors vectors;
  vectors.dim = file.dim;
  for (size_t i = 0; i < order.size(); ++i) {
    std::vector<float>& target = int64_t(i) < data.queries ? vectors.queries : vectors.base;
    const auto row = file.values.begin() + ptrdiff_t(order[i] * file.dim);
    target.insert(target.end(), row, row + file.dim);
  }
  return vectors;
}

}  // namespace

void add_vector_bench_data_flags(CLI::App& command, VectorBenchData& data) {
  command.add_option("--dim", data.clustered.dim, "numbers in a synthetic vector")->capture_default_str();
  command.add_option("-n", data.count, "synthetic vectors")->capture_default_str();
  command.add_option("--queries", data.queries, "queries")->capture_default_str();
  command.add_option("--clusters", data.clustered.clusters, "clusters of the synthetic vectors")->capture_default_str();
  command.add_option("--spread", data.clustered.spread, "share of their variance inside clusters")
      ->capture_default_str();
  command.add_option("--decay", data.clustered.decay, "their i-th principal variance falls as i^-decay; 0: isotropic")
      ->capture_default_str();
  command.add_option("-s,--seed", data.clustered.seed, "seed of vectors and rotation")->capture_default_str();
  command.add_option("-f,--file", data.base_file, "given vectors instead: .fvecs, .npy or .json");
  command.add_option("--query-file", data.query_file, "queries for -f; else some vectors of -f are held out");
}

BenchVectors bench_vectors(const VectorBenchData& data, int threads) {
  if (data.queries < 1 || data.queries > 1'000'000)
    refuse(fmt::format("--queries takes 1 to 1000000, got {}", data.queries));
  if (data.base_file.empty()) {
    if (!data.query_file.empty()) refuse("--query-file needs -f");
    return synthetic(data, threads);
  }
  VectorFile file = read_vectors(data.base_file);
  if (data.query_file.empty()) {
    BenchVectors vectors = held_out(data, file);
    vectors.description = fmt::format("given, {} held out, seed {}", data.queries, data.clustered.seed);
    return vectors;
  }
  VectorFile queries = read_vectors(data.query_file);
  if (queries.dim != file.dim) refuse(fmt::format("--query-file holds vectors of {}, -f of {}", queries.dim, file.dim));
  if (file.rows < 1 || queries.rows < 1) refuse("-f and --query-file need at least one vector each");
  return {"given", file.dim, std::move(file.values), std::move(queries.values)};
}

}  // namespace kvasir::cli
