// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/attention_run.h"
#include "cli/bench_routines.h"

namespace kvasir::cli {

void bench_decode(const AttentionSetup& setup, bool json) {
  AttentionRun run(setup);
  run.time();
  if (json) return print_json(run.json());
  fmt::print("{} over {} tokens: {} heads, {} KV heads of {}; {}\n\n",
             setup.sequences == 1 ? "One token attends"
                                  : fmt::format("One token of each of {} sequences attends", setup.sequences),
             setup.tokens(), setup.layer.heads, setup.layer.kv_heads, setup.layer.key_dim, run.conditions());
  const std::string table =
      run.table({"us/step", "ns/tok/head", "GB/s", "of stream"}, [&](size_t m) -> std::vector<std::string> {
        return {quartiles_text(run.seconds_of(m), 1e6, 0), fmt::format("{:.2f}", run.ns_per_token(m)),
                fmt::format("{:.2f}", run.gbps(m)), fmt::format("{:.0f} %", 100 * run.stream_share(m))};
      });
  fmt::print("{}\nx: how many times faster than that baseline, median of paired steps (quartiles)\n{}", table,
             run.fits());
}

}  // namespace kvasir::cli
