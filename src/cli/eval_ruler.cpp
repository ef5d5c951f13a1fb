// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir eval ruler: the eleven RULER tasks that need no data set.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/eval_tasks.h"
#include "eval/ruler_task.h"

namespace kvasir::cli {
namespace {

struct RulerFlags : EvalFlags {
  std::vector<std::string> tasks;
  std::vector<int64_t> lengths;
  int samples = RulerOptions().samples;
  std::string text;
  bool oracle = false, no_context = false;
};

void print(const Json& result) {
  for (const Json& cell : result.at("cells")) {
    fmt::print("{:<16} {:>7} tokens  {}", cell.at("task").get<std::string>(), cell.at("length").get<int64_t>(),
               score_text(cell));
    if (cell.contains("answer_logprob"))
      fmt::print("  right answer {:+.3f} nats a token", cell.at("answer_logprob").get<double>());
    fmt::print("\n");
  }
  fmt::print("score        {} over {} samples\n", score_text(result), result.at("n").get<size_t>());
  print_cache_use(result);
}

// The oracle needs a model only to count tokens.
Json run_oracle(RulerOptions options, const RulerFlags& flags) {
  options.setup.context = flags.model.context;
  options.setup.note = [](const std::string& line) { note(line); };
  return run_ruler(options);
}

void eval_ruler(const CLI::App& command, RulerFlags flags) {
  RulerOptions options;
  options.oracle = flags.oracle;
  if (!flags.oracle || !flags.model.model.empty()) check_model_flags(flags.model);
  options.tasks = flags.tasks;
  if (options.tasks == std::vector<std::string>{"all"}) options.tasks.clear();
  options.lengths = task_lengths(command, flags.lengths, flags.model);
  options.samples = flags.samples;
  options.no_context = flags.no_context;
  options.seed = flags.seed;
  if (!flags.text.empty()) options.text = read_text(flags.text);
  Json result = flags.model.model.empty() ? run_oracle(options, flags)
                                          : run_eval_task(flags, "asking", [&](const EvalSetup& setup) {
                                              options.setup = setup;
                                              return run_ruler(options);
                                            });
  if (!flags.text.empty()) result["text"] = flags.text;
  flags.json ? print_json(result) : print(result);
}

std::string task_list() {
  std::string names;
  for (const std::string& name : ruler_task_names()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

}  // namespace

void add_eval_ruler(CLI::App& eval) {
  const auto flags = std::make_shared<RulerFlags>();
  CLI::App* command = eval.add_subcommand("ruler", "RULER's eleven tasks that need no data set");
  add_eval_flags(*command, *flags, true);
  command->add_option("--tasks", flags->tasks, "all, or some of " + task_list())->delimiter(',');
  command->add_option("--lengths", flags->lengths, "tokens of prompt and answer, as in 4096,8192; default: -c")
      ->delimiter(',');
  command->add_option("--samples", flags->samples, "for each task and length")->capture_default_str();
  command->add_option("--text", flags->text, "a file of prose for the essay tasks; default: a document of our own");
  command->add_flag("--oracle", flags->oracle, "a solver that reads the prompt instead of the model (-m only counts)");
  command->add_flag("--no-context", flags->no_context, "the question alone: what can be guessed");
  command->callback([flags, command] { eval_ruler(*command, *flags); });
}

}  // namespace kvasir::cli
