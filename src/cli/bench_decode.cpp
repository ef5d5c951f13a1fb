// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/attention_run.h"
#include "cli/bench_routines.h"
#include "cli/text_table.h"

namespace kvasir::cli {

void bench_decode(const AttentionSetup& setup, bool json) {
  AttentionRun run(setup);
  run.time();
  if (json) return print_json(run.json());
  fmt::print("{} over {} tokens: {} heads, {} KV heads of {}; {}\n\n",
             setup.sequences == 1 ? "One token attends"
                                  : fmt::format("One token of each of {} sequences attends", setup.sequences),
             setup.tokens(), setup.layer.heads, setup.layer.kv_heads, setup.layer.key_dim, run.conditions());
  std::vector<std::string> head = {"", "bits", "us/step", "ns/tok/head", "GB/s", "of stream"};
  const auto append = [](std::vector<std::string>& row, const std::vector<std::string>& cells) {
    row.insert(row.end(), cells.begin(), cells.end());
  };
  append(head, run.error_titles());
  append(head, run.ratio_titles());
  std::vector<std::vector<std::string>> rows = {head};
  for (size_t m = 0; m < run.methods().size(); ++m) {
    const AttentionMethod& method = run.methods()[m];
    std::vector<std::string> row = {method.name,
                                    fmt::format("{:.2f}", method.bits_per_value),
                                    quartiles_text(run.seconds_of(m), 1e6, 0),
                                    fmt::format("{:.2f}", run.ns_per_token(m)),
                                    fmt::format("{:.2f}", run.gbps(m)),
                                    fmt::format("{:.0f} %", 100 * run.stream_share(m))};
    append(row, run.error_cells(m));
    append(row, run.ratio_cells(m));
    rows.push_back(std::move(row));
  }
  fmt::print("{}\nx: how many times faster than that baseline, median of paired steps (quartiles)\n{}",
             text_table(rows), run.fits());
}

}  // namespace kvasir::cli
