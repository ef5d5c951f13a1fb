// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "cli/attention_run.h"
#include "cli/bench_routines.h"
#include "cli/ggml_rows.h"
#include "cli/text_table.h"

namespace kvasir::cli {
namespace {

struct Shape {
  int group, head_dim;
  const char* codecs;
  bool fitted = false;
};
constexpr Shape kShapes[] = {{8, 128, "turbo4"},
                             {4, 128, "turbo4,oscar2,turbo2,turbo3,spectral3", true},
                             {1, 128, "turbo4"},
                             {4, 64, "turbo4"},
                             {4, 256, "turbo4"}};
constexpr int kKvHeads = 2;

std::vector<std::string> title_row(const AttentionRun& run) {
  std::vector<std::string> row = {"shape", "codec", "ns/tok/head", "of stream"};
  for (const std::string& title : run.ratio_titles()) row.push_back(title);
  if (run.setup().flags.refcheck) row.push_back("kernel/codec error");
  return row;
}

std::vector<std::string> row_of(const AttentionRun& run, const Shape& shape, size_t m) {
  const AttentionMethod& method = run.methods()[m];
  std::vector<std::string> row = {fmt::format("G = {}, head dim {}", shape.group, shape.head_dim), method.name,
                                  fmt::format("{:.2f}", run.ns_per_token(m)),
                                  fmt::format("{:.0f} %", 100 * run.stream_share(m))};
  for (const std::string& cell : run.ratio_cells(m)) row.push_back(cell);
  if (method.errors) row.push_back(fmt::format("{:.2g} %", 100 * method.errors->share()));
  return row;
}

}  // namespace

void bench_shapes(const AttentionFlags& flags, bool json) {
  std::vector<std::vector<std::string>> table;
  std::string conditions, fits;
  Json results = Json::array();
  for (const Shape& shape : kShapes) {
    AttentionFlags own = flags;
    own.kv = shape.codecs;
    own.kv_heads = kKvHeads;
    own.heads = kKvHeads * shape.group;
    own.head_dim = shape.head_dim;
    if (!shape.fitted) own.calibration.clear();
    AttentionRun run(attention_setup(own));
    run.time();
    if (json) {
      results.push_back(run.json());
      continue;
    }
    if (table.empty()) {
      conditions = fmt::format("One token attends over {} tokens, {} KV heads; {}", run.setup().tokens(), kKvHeads,
                               run.conditions());
      table.push_back(title_row(run));
    }
    fits += run.fits();
    for (size_t m = 0; m < run.codecs(); ++m) table.push_back(row_of(run, shape, m));
  }
  if (json) return print_json({{"shapes", results}});
  fmt::print(
      "{}\n\n{}\nG: query heads of a KV head; x: how many times faster than that baseline, median of paired "
      "steps (quartiles)\n{}",
      conditions, text_table(table), fits);
}

}  // namespace kvasir::cli
