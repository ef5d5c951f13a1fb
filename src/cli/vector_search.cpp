// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir vector search: the nearest vectors of each query.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/vector_flags.h"
#include "kvasir/error.h"
#include "vector/exact_search.h"
#include "vector/vector_file.h"

namespace kvasir::cli {
namespace {

struct SearchFlags {
  std::string index, file, base;
  int k = 10, rerank = 0, threads = 0;
  bool no_verify = false, json = false;
};

// Exact search over the vectors that the index was built from, as a measure of what it found.
Json recall_json(const SearchFlags& flags, const VectorIndex& index, const VectorFile& queries, const HitLists& found,
                 int threads) {
  const VectorFile base = read_vectors(flags.base);
  if (base.dim != index.options().dim || base.rows != index.size())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--base `{}` holds {} vectors of {}, the index {} of {}", flags.base, base.rows, base.dim,
                            index.size(), index.options().dim));
  const HitLists exact =
      exact_search(base.values, queries.values, base.dim, index.options().metric, std::max(flags.k, 10), threads);
  Json result = {{"recall_at_1", recall_of_nearest(exact, found, 1)}};
  if (flags.k >= 10) result["recall_at_10"] = recall(exact, found, 10);
  result[fmt::format("recall_1_at_{}", flags.k)] = recall_of_nearest(exact, found, flags.k);
  return result;
}

void print_hits(const HitLists& found) {
  for (size_t q = 0; q < found.size(); ++q) {
    fmt::print("{}:", q);
    for (const VectorHit& hit : found[q]) fmt::print("  {} ({:.6g})", hit.id, hit.score);
    fmt::print("\n");
  }
}

void search(const SearchFlags& flags) {
  if (flags.index.empty())
    throw Error(ErrorCode::invalid_argument, "no index: name the file that `kvasir vector build -o FILE` wrote");
  if (flags.file.empty()) throw Error(ErrorCode::invalid_argument, "no queries: -f takes a .fvecs, .npy or .json file");
  const int threads = vector_threads(flags.threads);
  const Stopwatch opening;
  const VectorIndex index = VectorIndex::open(flags.index, !flags.no_verify);
  const double open_seconds = opening.seconds();
  const VectorFile queries = read_vectors(flags.file);
  if (queries.dim != index.options().dim)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("`{}` holds vectors of {}, the index of {}", flags.file, queries.dim, index.options().dim));
  const Stopwatch watch;
  const HitLists found = index.search(queries.values, flags.k, {flags.rerank, threads});
  const double seconds = watch.seconds();
  Json result = index_json(index);
  if (!flags.base.empty()) result.update(recall_json(flags, index, queries, found, threads));
  if (!flags.json) return print_hits(found);

  Json lists = Json::array();
  for (const std::vector<VectorHit>& hits : found) {
    Json ids = Json::array(), scores = Json::array();
    for (const VectorHit& hit : hits) {
      ids.push_back(hit.id);
      scores.push_back(hit.score);
    }
    lists.push_back({{"ids", ids}, {"scores", scores}});
  }
  result["queries"] = queries.rows;
  result["k"] = flags.k;
  result["reranked"] = flags.rerank;
  result["threads"] = threads;
  result["open_seconds"] = open_seconds;
  result["search_seconds"] = seconds;
  result["queries_per_second"] = double(queries.rows) / seconds;
  result["hits"] = lists;
  print_json(result);
}

}  // namespace

void add_vector_search(CLI::App& vector) {
  const auto flags = std::make_shared<SearchFlags>();
  CLI::App* command = vector.add_subcommand("search", "the nearest vectors of each query");
  command->add_option("index", flags->index, "the index's file");
  command->add_option("-f,--file", flags->file, "queries: .fvecs, .npy [rows, dim] or .json");
  command->add_option("-k", flags->k, "hits for each query")->capture_default_str();
  command->add_option("--rerank", flags->rerank, "candidates to score again with the stored vectors; 0: none")
      ->capture_default_str();
  command->add_option("--base", flags->base, "the file that the index was built from: measure recall against it");
  command->add_option("-t,--threads", flags->threads, "threads; 0: all that this process may use")
      ->capture_default_str();
  command->add_flag("--no-verify", flags->no_verify, "don't read the file once for its checksums before the search");
  command->add_flag("--json", flags->json, "print one JSON object");
  command->callback([flags] { search(*flags); });
}

}  // namespace kvasir::cli
