// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir eval recall: facts told in a long chat and asked for at its end.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/eval_tasks.h"
#include "eval/recall_task.h"

namespace kvasir::cli {
namespace {

struct RecallFlags : EvalFlags {
  bool synthetic = false;
  std::vector<std::string> methods = {"full"};
  double budget_ratio = 1.0;
  int facts = RecallOptions().facts, chats = RecallOptions().chats, answer_tokens = RecallOptions().answer_tokens;
};

void print(const Json& result) {
  for (const auto& [name, method] : result.at("methods").items()) {
    fmt::print("{:<12} recalled {} of {} facts, right answer {:+.3f} nats a token, {}\n", name, score_text(method),
               method.at("n").get<size_t>(), method.at("answer_logprob").get<double>(),
               format_bytes(method.at("bytes").get<size_t>()));
  }
  for (const Json& cell : result.at("cells"))
    fmt::print("  told after {:>2} % of the chat: {}\n", cell.at("depth").get<int>(), score_text(cell));
  print_cache_use(result);
}

void eval_recall(const CLI::App& command, RecallFlags flags) {
  if (!flags.synthetic)
    throw Error(ErrorCode::invalid_argument,
                "eval recall reads no data sets in this version; give --synthetic for a chat made here");
  check_model_flags(flags.model);
  RecallOptions options;
  options.methods = flags.methods;
  options.budget_ratio = flags.budget_ratio;
  options.length = task_lengths(command, {}, flags.model)[0];
  options.facts = flags.facts;
  options.chats = flags.chats;
  options.answer_tokens = flags.answer_tokens;
  options.seed = flags.seed;
  check_recall(options);
  const Json result = run_eval_task(flags, "asking", [&](const EvalSetup& setup) {
    options.setup = setup;
    return run_recall(options);
  });
  flags.json ? print_json(result) : print(result);
}

}  // namespace

void add_eval_recall(CLI::App& eval) {
  const auto flags = std::make_shared<RecallFlags>();
  CLI::App* command = eval.add_subcommand("recall", "facts told in a long chat and asked for at its end");
  add_eval_flags(*command, *flags, true);
  command->add_flag("--synthetic", flags->synthetic, "a chat made here, with -c tokens");
  command->add_option("--method", flags->methods, "how the past is kept; full: every token, in the codec of --kv")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--budget-ratio", flags->budget_ratio, "share of the tokens that a method other than full keeps")
      ->capture_default_str();
  command->add_option("--facts", flags->facts, "facts in a chat")->capture_default_str();
  command->add_option("--chats", flags->chats, "chats")->capture_default_str();
  command->add_option("-n,--answer-tokens", flags->answer_tokens, "most tokens of an answer")->capture_default_str();
  command->callback([flags, command] { eval_recall(*command, *flags); });
}

}  // namespace kvasir::cli
