// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir vector add, remove, info. The file is replaced as a whole: a reader sees the old index or the new one.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/vector_flags.h"
#include "kvasir/error.h"
#include "vector/vector_file.h"

namespace kvasir::cli {
namespace {

struct ChangeFlags {
  std::string index, file, ids;
  int threads = 0;
  bool json = false;
};

VectorIndex open_index(const ChangeFlags& flags) {
  if (flags.index.empty())
    throw Error(ErrorCode::invalid_argument, "no index: name the file that `kvasir vector build -o FILE` wrote");
  return VectorIndex::open(flags.index);
}

void report(const ChangeFlags& flags, const VectorIndex& index, const Json& more) {
  Json result = index_json(index);
  result.update(more);
  if (flags.json) return print_json(result);
  fmt::print("{}: {} vectors of {}, {} bits, {}, re-ranking store {}\n", flags.index, index.size(), index.options().dim,
             index.options().bits, to_string(index.options().metric), to_string(index.options().rerank));
}

void add(const ChangeFlags& flags) {
  if (flags.file.empty()) throw Error(ErrorCode::invalid_argument, "no vectors: -f takes a .fvecs, .npy or .json file");
  const int threads = vector_threads(flags.threads);
  const std::vector<int64_t> ids = flags.ids.empty() ? std::vector<int64_t>() : parse_ids(flags.ids);
  VectorIndex index = open_index(flags);
  const VectorFile vectors = read_vectors(flags.file);
  if (vectors.dim != index.options().dim)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("`{}` holds vectors of {}, the index of {}", flags.file, vectors.dim, index.options().dim));
  const Stopwatch watch;
  index.add(vectors.values, ids, threads);
  const double seconds = watch.seconds();
  index.save(flags.index);
  report(flags, index, {{"added", vectors.rows}, {"add_seconds", seconds}});
}

void remove(const ChangeFlags& flags) {
  if (flags.ids.empty()) throw Error(ErrorCode::invalid_argument, "no ids: --ids takes them as in 3,17,20-29");
  const std::vector<int64_t> ids = parse_ids(flags.ids);
  VectorIndex index = open_index(flags);
  const Stopwatch watch;
  index.remove(ids);
  const double seconds = watch.seconds();
  index.save(flags.index);
  report(flags, index, {{"removed", ids.size()}, {"remove_seconds", seconds}});
}

void info(const ChangeFlags& flags) {
  report(flags, open_index(flags), Json::object());
}

CLI::App* command_with_index(CLI::App& vector, const char* name, const char* what,
                             const std::shared_ptr<ChangeFlags>& flags) {
  CLI::App* command = vector.add_subcommand(name, what);
  command->add_option("index", flags->index, "the index's file");
  command->add_flag("--json", flags->json, "print one JSON object");
  return command;
}

}  // namespace

void add_vector_change(CLI::App& vector) {
  const auto adding = std::make_shared<ChangeFlags>(), removing = std::make_shared<ChangeFlags>(),
             asking = std::make_shared<ChangeFlags>();
  CLI::App* command = command_with_index(vector, "add", "more vectors into an index", adding);
  command->add_option("-f,--file", adding->file, "vectors: .fvecs, .npy [rows, dim] or .json");
  command->add_option("--ids", adding->ids, "their ids, as in 3,17,20-29; the next free numbers");
  command->add_option("-t,--threads", adding->threads, "threads; 0: all that this process may use")
      ->capture_default_str();
  command->callback([adding] { add(*adding); });

  command = command_with_index(vector, "remove", "vectors out of an index, by id", removing);
  command->add_option("--ids", removing->ids, "as in 3,17,20-29");
  command->callback([removing] { remove(*removing); });

  command = command_with_index(vector, "info", "what an index holds; reads it once and checks every checksum", asking);
  command->callback([asking] { info(*asking); });
}

}  // namespace kvasir::cli
