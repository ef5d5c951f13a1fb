// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The tasks of `kvasir eval`, one file each, and what they share: flags, set-up, and the frame of the result.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/model_flags.h"
#include "cli/terminal.h"
#include "eval/eval_setup.h"

namespace CLI {
class App;
}

namespace kvasir::cli {

void add_eval_ppl(CLI::App& eval);       // eval_ppl.cpp
void add_eval_needle(CLI::App& eval);    // eval_needle.cpp
void add_eval_ruler(CLI::App& eval);     // eval_ruler.cpp
void add_eval_recall(CLI::App& eval);    // eval_recall.cpp
void add_eval_generate(CLI::App& eval);  // eval_generate.cpp
void add_eval_tasks(CLI::App& eval);     // all of these

struct EvalFlags {
  ModelFlags model;
  CacheFlags cache;
  bool raw = false;   // --raw
  bool json = false;  // --json
  uint64_t seed = 42;
};

// Model, cache, --raw, --json; --seed where the task draws something.
void add_eval_flags(CLI::App& command, EvalFlags& flags, bool seeded);

// --kv of the cache under test: codecs, llama.cpp's own (native:K[,V]) or a preset. Throws Error invalid_argument.
SourceSpec spec_under_test(const CacheFlags& flags);

// --lengths, or -c alone where none are given. A -c that wasn't given becomes the longest length.
std::vector<int64_t> task_lengths(const CLI::App& command, const std::vector<int64_t>& lengths, ModelFlags& flags);

// Loads the model, runs the task with a progress bar and adds what every result tells beside its numbers: "model",
// "kv", "effective", "seconds", "peak_rss". `task` gets the set-up, its context as in -c.
Json run_eval_task(const EvalFlags& flags, const std::string& label,
                   const std::function<nlohmann::json(const EvalSetup&)>& task);

// "0.750 +- 0.050" of an object with "score" and "score_se".
std::string score_text(const Json& cell);

// One line on stdout: what the cache took.
void print_cache_use(const Json& result);

}  // namespace kvasir::cli
