// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir vector build: an index from a file of vectors.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "cli/vector_flags.h"
#include "kvasir/error.h"
#include "vector/vector_file.h"

namespace kvasir::cli {
namespace {

struct BuildFlags {
  std::string file, output, metric = "ip", rerank = "none", code = "scalar";
  int bits = 4, threads = 0;
  uint64_t seed = 1;
  bool no_center = false, json = false;
};

void build(const BuildFlags& flags) {
  if (flags.file.empty()) throw Error(ErrorCode::invalid_argument, "no vectors: -f takes a .fvecs, .npy or .json file");
  if (flags.output.empty()) throw Error(ErrorCode::invalid_argument, "no output: -o takes the index's file");
  VectorIndexOptions options;
  options.bits = flags.bits;
  options.metric = parse_metric(flags.metric);
  options.rerank = parse_rerank_store(flags.rerank);
  options.code = parse_code(flags.code);
  options.seed = flags.seed;
  options.center = !flags.no_center;
  options.dim = 1;
  const int threads = vector_threads(flags.threads);
  VectorIndex checked(options);  // refuses wrong flags before anything is read

  const Stopwatch reading;
  const VectorFile vectors = read_vectors(flags.file);
  const double read_seconds = reading.seconds();
  options.dim = vectors.dim;
  const Stopwatch building;
  VectorIndex index(options);
  index.add(vectors.values, {}, threads);
  const double build_seconds = building.seconds();
  const Stopwatch saving;
  index.save(flags.output);
  const double save_seconds = saving.seconds();
  const uint64_t file_bytes = std::filesystem::file_size(flags.output);
  if (!flags.json) {
    note(fmt::format("{} vectors of {} in {:.3f} s; {:.1f} bytes each, wrote {} ({})", index.size(), vectors.dim,
                     build_seconds, index_json(index)["bytes_per_vector"].get<double>(), flags.output,
                     format_bytes(file_bytes)));
    return;
  }
  Json result = index_json(index);
  result["file"] = flags.output;
  result["file_bytes"] = file_bytes;
  result["threads"] = threads;
  result["read_seconds"] = read_seconds;
  result["build_seconds"] = build_seconds;
  result["save_seconds"] = save_seconds;
  print_json(result);
}

}  // namespace

void add_vector_build(CLI::App& vector) {
  const auto flags = std::make_shared<BuildFlags>();
  CLI::App* command = vector.add_subcommand("build", "an index from a file of vectors; ids are the row numbers");
  command->add_option("-f,--file", flags->file, "vectors: .fvecs, .npy [rows, dim] or .json");
  command->add_option("-o,--output", flags->output, "the index's file");
  command->add_option("--bits", flags->bits, "bits a channel, 1 to 4")->capture_default_str();
  command
      ->add_option("--code", flags->code, "scalar, or trellis: a third less error in the same bytes, slower to build")
      ->capture_default_str();
  command->add_option("--metric", flags->metric, "ip, cosine or l2")->capture_default_str();
  command->add_option("--rerank", flags->rerank, "what to store for re-ranking: none, f16 or original")
      ->capture_default_str();
  command->add_option("-s,--seed", flags->seed, "seed of the rotation")->capture_default_str();
  command->add_flag("--no-center", flags->no_center, "don't subtract the vectors' mean");
  command->add_option("-t,--threads", flags->threads, "threads; 0: all that this process may use")
      ->capture_default_str();
  command->add_flag("--json", flags->json, "print one JSON object");
  command->callback([flags] { build(*flags); });
}

}  // namespace kvasir::cli
