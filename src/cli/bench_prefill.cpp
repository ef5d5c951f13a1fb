// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Ours appends the block to the cache, packs the pages that it fills up and attends; ggml's caches hold the block
// already.
#include <fmt/format.h>

#include "cli/attention_run.h"
#include "cli/bench_routines.h"

namespace kvasir::cli {

void bench_prefill(const AttentionSetup& setup, bool json) {
  AttentionRun run(setup);
  run.time();
  if (json) return print_json(run.json());
  fmt::print("{} tokens attend over {} before them and each other: {} heads, {} KV heads of {}; {}\n\n", setup.block,
             setup.past, setup.layer.heads, setup.layer.kv_heads, setup.layer.key_dim, run.conditions());
  const std::string table =
      run.table({"ms/block", "tokens/s", "GFLOP/s", "encoding"}, [&](size_t m) -> std::vector<std::string> {
        const AttentionMethod& method = run.methods()[m];
        const double time = run.seconds_of(m).median;
        return {quartiles_text(run.seconds_of(m), 1e3, 1), fmt::format("{:.0f}", setup.block / time),
                fmt::format("{:.1f}", run.gflops(m)),
                method.ours ? fmt::format("{:.1f} %", 100 * quartiles(method.append_seconds).median / time) : ""};
      });
  fmt::print(
      "{}\nencoding: the write side alone of the same block on the same cache, as a share of the whole time, of which "
      "it is a part\nx: how many times faster than that baseline, which has the block in its cache before it starts; "
      "median of paired steps (quartiles)\n{}",
      table, run.fits());
}

}  // namespace kvasir::cli
