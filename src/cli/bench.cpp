// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/bench.h"

#include <CLI/CLI.hpp>

#include "cli/commands.h"

namespace kvasir::cli {

void add_bench(CLI::App& program) {
  CLI::App* bench = program.add_subcommand("bench", "speed against llama.cpp's own caches, in one process");
  bench->require_subcommand(1);
  add_bench_attention(*bench);
  add_bench_end_to_end(*bench);
  add_bench_turns(*bench);
}

}  // namespace kvasir::cli
