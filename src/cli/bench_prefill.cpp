// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Ours appends the block to the cache, packs the pages that it fills up and attends; ggml's caches hold the block
// already.
#include <fmt/format.h>

#include "cli/attention_run.h"
#include "cli/bench_routines.h"
#include "cli/text_table.h"

namespace kvasir::cli {

void bench_prefill(const AttentionSetup& setup, bool json) {
  AttentionRun run(setup);
  run.time();
  if (json) return print_json(run.json());
  fmt::print("{} tokens attend over {} before them and each other: {} heads, {} KV heads of {}; {}\n\n", setup.block,
             setup.past, setup.layer.heads, setup.layer.kv_heads, setup.layer.key_dim, run.conditions());
  std::vector<std::string> head = {"", "bits", "ms/block", "tokens/s", "GFLOP/s", "encoding"};
  const auto append = [](std::vector<std::string>& row, const std::vector<std::string>& cells) {
    row.insert(row.end(), cells.begin(), cells.end());
  };
  append(head, run.error_titles());
  append(head, run.ratio_titles());
  std::vector<std::vector<std::string>> rows = {head};
  for (size_t m = 0; m < run.methods().size(); ++m) {
    const AttentionMethod& method = run.methods()[m];
    const double time = run.seconds_of(m).median;
    std::vector<std::string> row = {method.name,
                                    fmt::format("{:.2f}", method.bits_per_value),
                                    quartiles_text(run.seconds_of(m), 1e3, 1),
                                    fmt::format("{:.0f}", setup.block / time),
                                    fmt::format("{:.1f}", run.gflops(m)),
                                    ""};
    if (method.ours) row.back() = fmt::format("{:.1f} %", 100 * quartiles(method.append_seconds).median / time);
    append(row, run.error_cells(m));
    append(row, run.ratio_cells(m));
    rows.push_back(std::move(row));
  }
  fmt::print(
      "{}\nencoding: the write side alone of the same block on the same cache, as a share of the whole time, of which "
      "it is a part\nx: how many times faster than that baseline, which has the block in its cache before it starts; "
      "median of paired steps (quartiles)\n{}",
      text_table(rows), run.fits());
}

}  // namespace kvasir::cli
