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
};
constexpr Shape kShapes[] = {{8, 128, "turbo4"},
                             {4, 128, "turbo4,oscar2,turbo2,turbo3,spectral3"},
                             {1, 128, "turbo4"},
                             {4, 64, "turbo4"},
                             {4, 256, "turbo4"}};
constexpr int kKvHeads = 2;

std::string shape_text(const Shape& shape) {
  return fmt::format("G = {}, head dim {}", shape.group, shape.head_dim);
}

}  // namespace

void bench_shapes(const AttentionFlags& flags, bool json) {
  std::vector<std::string> head = {"shape", "codec", "ns/tok/head"};
  std::vector<std::vector<std::string>> table;
  std::string conditions;
  Json results = Json::array();
  for (const Shape& shape : kShapes) {
    AttentionFlags own = flags;
    own.kv = shape.codecs;
    own.kv_heads = kKvHeads;
    own.heads = kKvHeads * shape.group;
    own.head_dim = shape.head_dim;
    AttentionRun run(attention_setup(own));
    run.time();
    if (json) results.push_back(run.json());
    if (table.empty()) {
      conditions = fmt::format("One token attends over {} tokens, {} KV heads; {}", run.setup().tokens(), kKvHeads,
                               run.conditions());
      for (const std::string& title : run.ratio_titles()) head.push_back(title);
      for (const std::string& title : run.error_titles()) head.push_back(title);
      table.push_back(head);
    }
    for (size_t m = 0; m < run.methods().size(); ++m) {
      std::vector<std::string> row = {shape_text(shape), run.methods()[m].name,
                                      fmt::format("{:.2f}", run.ns_per_token(m))};
      std::vector<std::string> ratios = run.ratio_cells(m);
      ratios.resize(run.ratio_titles().size());
      for (const std::string& cell : ratios) row.push_back(cell);
      for (const std::string& cell : run.error_cells(m)) row.push_back(cell);
      table.push_back(std::move(row));
    }
  }
  if (json) return print_json({{"shapes", results}});
  fmt::print(
      "{}\n\n{}\nG: query heads of a KV head; x: how many times faster than that baseline, median of paired "
      "steps (quartiles)\n",
      conditions, text_table(table));
}

}  // namespace kvasir::cli
