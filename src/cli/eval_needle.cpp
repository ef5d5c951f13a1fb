// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir eval needle: a sentence in a long text, over lengths and depths.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/eval_tasks.h"
#include "eval/needle_task.h"

namespace kvasir::cli {
namespace {

struct NeedleFlags : EvalFlags {
  std::vector<int64_t> lengths;
  std::vector<double> depths = NeedleOptions().depths;
  std::string mode = "single", text;
  int repeats = 1, answer_tokens = NeedleOptions().answer_tokens;
};

void print(const Json& result) {
  fmt::print("{:>8}", "tokens");
  for (const Json& depth : result.at("depths")) fmt::print("{:>8}", fmt::format("{:g} %", depth.get<double>()));
  int64_t row = 0;
  for (const Json& cell : result.at("cells")) {
    const int64_t length = cell.at("length").get<int64_t>();
    if (length != row) fmt::print("\n{:>8}", row = length);
    fmt::print("{:>8.2f}", cell.at("score").get<double>());
  }
  fmt::print("\nscore        {} of {} questions, right answer {:.3f} nats a token\n", score_text(result),
             result.at("n").get<size_t>(), result.at("answer_logprob").get<double>());
  print_cache_use(result);
}

void eval_needle(const CLI::App& command, NeedleFlags flags) {
  check_model_flags(flags.model);
  NeedleOptions options;
  if (flags.mode == "multi")
    options.mode = NeedleMode::multi;
  else if (flags.mode != "single")
    throw Error(ErrorCode::invalid_argument, "--mode takes single or multi, got '" + flags.mode + "'");
  options.lengths = task_lengths(command, flags.lengths, flags.model);
  options.depths = flags.depths;
  options.repeats = flags.repeats;
  options.answer_tokens = flags.answer_tokens;
  options.seed = flags.seed;
  if (!flags.text.empty()) options.text = read_text(flags.text);
  Json result = run_eval_task(flags, "asking", [&](const EvalSetup& setup) {
    options.setup = setup;
    return run_needle(options);
  });
  if (!flags.text.empty()) result["text"] = flags.text;
  flags.json ? print_json(result) : print(result);
}

}  // namespace

void add_eval_needle(CLI::App& eval) {
  const auto flags = std::make_shared<NeedleFlags>();
  CLI::App* command = eval.add_subcommand("needle", "a sentence hidden in a long text, over lengths and depths");
  add_eval_flags(*command, *flags, true);
  command->add_option("--lengths", flags->lengths, "tokens of prompt and answer, as in 1024,4096; default: -c")
      ->delimiter(',');
  command->add_option("--depths", flags->depths, "per cent of the text before the needle")
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option("--mode", flags->mode,
                   "single: one needle in a text; multi: one at every depth of the same text, which is read once")
      ->capture_default_str();
  command->add_option("--repeats", flags->repeats, "texts for each length")->capture_default_str();
  command->add_option("--text", flags->text, "a file of prose to hide needles in; default: a document of our own");
  command->add_option("-n,--answer-tokens", flags->answer_tokens, "most tokens of an answer")->capture_default_str();
  command->callback([flags, command] { eval_needle(*command, *flags); });
}

}  // namespace kvasir::cli
