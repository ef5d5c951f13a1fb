// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir vector bench: recall, build time and throughput on synthetic or given vectors. The ratios to product
// quantization are null here: bench/vector.py measures faiss on the same vectors (--save-data) and fills them in.
#include <fmt/format.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include "cli/vector_bench_data.h"
#include "cli/vector_flags.h"
#include "kvasir/error.h"
#include "vector/exact_search.h"
#include "vector/vector_file.h"

namespace kvasir::cli {
namespace {

constexpr int kHits = 64;

struct BenchFlags {
  VectorBenchData data;
  std::vector<int> bits = {2, 4};
  std::string metric = "ip", code = "scalar", save;
  int rerank = 0, threads = 1, rounds = 3;
  bool no_center = false, json = false;
};

// How far the estimated score of the true nearest vector is off, and how much room it had.
Json margin_json(const HitLists& exact, const HitLists& found) {
  double sum = 0, squares = 0, count = 0;
  std::vector<double> gaps;
  for (size_t q = 0; q < exact.size(); ++q) {
    if (exact[q].size() > 1) gaps.push_back(double(exact[q][0].score) - double(exact[q][1].score));
    for (const VectorHit& hit : found[q]) {
      if (hit.id != exact[q][0].id) continue;
      const double error = double(hit.score) - double(exact[q][0].score);
      sum += error;
      squares += error * error;
      ++count;
    }
  }
  const double mean = count > 0 ? sum / count : 0;
  const double deviation = count > 1 ? std::sqrt(std::max(0.0, squares / count - mean * mean)) : 0;
  std::sort(gaps.begin(), gaps.end());
  const auto below = std::lower_bound(gaps.begin(), gaps.end(), deviation) - gaps.begin();
  return {{"score_error_mean", mean},
          {"score_error_sd", deviation},
          {"gap_median", gaps.empty() ? 0.0 : gaps[gaps.size() / 2]},
          {"gap_below_error_sd", gaps.empty() ? 0.0 : double(below) / double(gaps.size())}};
}

Json recalls_json(const HitLists& exact, const HitLists& found) {
  Json curve = Json::object();
  for (int k = 1; k <= kHits; k *= 2) curve[std::to_string(k)] = recall_of_nearest(exact, found, k);
  return {{"recall_at_1", recall_of_nearest(exact, found, 1)},
          {"recall_at_10", recall(exact, found, 10)},
          {"recall_1_at", curve}};
}

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

// The median of some rounds: one alone may catch a bad moment of the machine. What runs on one thread is measured in
// CPU seconds, so that neighbours on the same cores don't count as ours.
template <typename Run>
double median_seconds(const BenchFlags& flags, Run run) {
  std::vector<double> seconds;
  for (int round = 0; round < flags.rounds; ++round) {
    const Stopwatch watch;
    const double cpu = cpu_seconds();
    run();
    seconds.push_back(flags.threads == 1 ? cpu_seconds() - cpu : watch.seconds());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

struct Built {
  VectorIndex index;
  double seconds;
};

Built build(const BenchFlags& flags, int bits, RerankStore store, const BenchVectors& data) {
  VectorIndexOptions options;
  options.dim = data.dim;
  options.bits = bits;
  options.metric = parse_metric(flags.metric);
  options.code = parse_code(flags.code);
  options.seed = flags.data.clustered.seed;
  options.center = !flags.no_center;
  options.rerank = store;
  VectorIndex index(options);
  const double seconds = median_seconds(flags, [&] {
    index = VectorIndex(options);
    index.add(data.base, {}, flags.threads);
  });
  return {std::move(index), seconds};
}

Json measure_reranked(const BenchFlags& flags, int bits, const BenchVectors& data, const HitLists& exact) {
  const Built built = build(flags, bits, RerankStore::f16, data);
  const int candidates = std::max(flags.rerank, kHits);
  HitLists found;
  const double seconds = median_seconds(flags, [&] {
    found = built.index.search(data.queries, kHits, {candidates, flags.threads});
  });
  Json result = recalls_json(exact, found);
  result["candidates"] = candidates;
  result["bytes"] = built.index.bytes().total();
  result["build_seconds"] = built.seconds;
  result["queries_per_second"] = double(data.query_rows()) / seconds;
  return result;
}

Json measure(const BenchFlags& flags, int bits, const BenchVectors& data, const HitLists& exact) {
  const auto [index, build_seconds] = build(flags, bits, RerankStore::none, data);
  HitLists found;
  const double search_seconds = median_seconds(flags, [&, &index = index] {
    found = index.search(data.queries, kHits, {0, flags.threads});
  });
  const size_t alone = std::min<size_t>(20, size_t(data.query_rows())), dim = size_t(data.dim);
  const double alone_seconds = median_seconds(flags, [&, &index = index] {
    for (size_t q = 0; q < alone; ++q)
      index.search(std::span(data.queries).subspan(q * dim, dim), kHits, {0, flags.threads});
  });

  Json result = index_json(index);
  result.update(recalls_json(exact, found));
  result.update(margin_json(exact, found));
  result["build_seconds"] = build_seconds;
  result["search_seconds"] = search_seconds;
  result["queries_per_second"] = double(data.query_rows()) / search_seconds;
  result["queries_per_second_per_core"] = double(data.query_rows()) / search_seconds / flags.threads;
  result["single_query_ms"] = 1e3 * alone_seconds / double(alone);
  if (flags.rerank > 0) result["reranked"] = measure_reranked(flags, bits, data, exact);
  result["build_ratio_pq"] = nullptr;
  result["query_ratio_pq"] = nullptr;
  return result;
}

void check_flags(const BenchFlags& flags) {
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  if (flags.bits.empty()) refuse("--bits takes some of 1,2,3,4");
  for (const int bits : flags.bits)
    if (bits < 1 || bits > 4) refuse(fmt::format("--bits takes some of 1,2,3,4, got {}", bits));
  if (flags.rerank < 0) refuse(fmt::format("--rerank takes 0 or more, got {}", flags.rerank));
  if (flags.rounds < 1 || flags.rounds > 100) refuse(fmt::format("--rounds takes 1 to 100, got {}", flags.rounds));
  parse_metric(flags.metric);
  parse_code(flags.code);
}

void bench(BenchFlags flags) {
  check_flags(flags);
  flags.threads = vector_threads(flags.threads);
  const int all_threads = vector_threads(0);  // what isn't measured may use them
  const BenchVectors data = bench_vectors(flags.data, all_threads);
  if (!flags.save.empty()) {
    std::filesystem::create_directories(flags.save);
    write_fvecs((std::filesystem::path(flags.save) / "base.fvecs").string(), data.base, data.dim);
    write_fvecs((std::filesystem::path(flags.save) / "queries.fvecs").string(), data.queries, data.dim);
  }
  const Stopwatch watch;
  const HitLists exact =
      exact_search(data.base, data.queries, data.dim, parse_metric(flags.metric), kHits, all_threads);
  Json result = {{"data", data.description}, {"vectors", data.base_rows()}, {"queries", data.query_rows()},
                 {"dim", data.dim},          {"metric", flags.metric},      {"threads", flags.threads}};
  result["exact_seconds"] = watch.seconds();
  result["exact_threads"] = all_threads;
  if (!flags.json)
    fmt::print(
        "{} vectors of {} ({}), {} queries, {}, {} thread(s)\n\n{:>4} {:>9} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9}\n",
        data.base_rows(), data.dim, data.description, data.query_rows(), flags.metric, flags.threads, "bits",
        "B/vector", "1@1", "1@8", "10@10", "build s", "queries/s", "ms alone");
  Json results = Json::array();
  for (const int bits : flags.bits) {
    const Json one = measure(flags, bits, data, exact);
    results.push_back(one);
    if (flags.json) continue;
    fmt::print("{:>4} {:>9.1f} {:>8.4f} {:>8.4f} {:>8.4f} {:>9.3f} {:>9.1f} {:>9.3f}\n", bits,
               one["bytes_per_vector"].get<double>(), one["recall_at_1"].get<double>(),
               one["recall_1_at"]["8"].get<double>(), one["recall_at_10"].get<double>(),
               one["build_seconds"].get<double>(), one["queries_per_second"].get<double>(),
               one["single_query_ms"].get<double>());
  }
  if (!flags.json) return;
  // The figures of the command contract on top: those of the most bits.
  const Json& most = *std::max_element(results.begin(), results.end(), [](const Json& a, const Json& b) {
    return a["bits"].get<int>() < b["bits"].get<int>();
  });
  for (const char* key : {"bits", "recall_at_1", "recall_at_10", "bytes", "bytes_per_vector", "build_seconds",
                          "search_seconds", "queries_per_second", "build_ratio_pq", "query_ratio_pq"})
    result[key] = most[key];
  result["results"] = results;
  result["peak_rss"] = peak_resident_bytes();
  print_json(result);
}

}  // namespace

void add_vector_bench(CLI::App& vector) {
  const auto flags = std::make_shared<BenchFlags>();
  CLI::App* command = vector.add_subcommand("bench", "recall, build time and throughput against exact search");
  add_vector_bench_data_flags(*command, flags->data);
  command->add_option("--bits", flags->bits, "bits a channel, as in 2,4")->delimiter(',')->capture_default_str();
  command->add_option("--code", flags->code, "scalar or trellis")->capture_default_str();
  command->add_option("--metric", flags->metric, "ip, cosine or l2")->capture_default_str();
  command->add_option("--rerank", flags->rerank, "store f16 too and measure re-ranking of that many; 0: no")
      ->capture_default_str();
  command->add_flag("--no-center", flags->no_center, "don't subtract the vectors' mean");
  command->add_option("-t,--threads", flags->threads, "threads of what is measured; 0: all")->capture_default_str();
  command->add_option("--rounds", flags->rounds, "times are medians of this many; CPU seconds on one thread")
      ->capture_default_str();
  command->add_option("--save-data", flags->save, "write base.fvecs and queries.fvecs into this folder");
  command->add_flag("--json", flags->json, "print one JSON object");
  command->callback([flags] { bench(*flags); });
}

}  // namespace kvasir::cli
