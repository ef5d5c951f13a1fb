// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir eval recall: a long conversation, kept in some way and asked about at its end.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/eval_tasks.h"
#include "eval/memory_method.h"
#include "eval/recall_task.h"

namespace kvasir::cli {
namespace {

struct RecallFlags : EvalFlags {
  RecallOptions task;  // without its set-up
  bool synthetic = false;
};

void print(const Json& result, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const Json& method = result.at("methods").at(name);
    fmt::print("{:<10} {} of {} questions, right answer {:+.3f} nats a token, {} (at most {} while reading)\n", name,
               score_text(method), method.at("n").get<size_t>(), method.at("answer_logprob").get<double>(),
               format_bytes(method.at("bytes").get<size_t>()), format_bytes(method.at("peak_bytes").get<size_t>()));
    if (method.contains("against_first")) {
      const Json& against = method.at("against_first");
      fmt::print("           {:+.3f} ± {:.3f} nats a token against {}, question by question\n",
                 against.at("answer_logprob").get<double>(), against.at("answer_logprob_se").get<double>(), names[0]);
    }
    if (method.contains("updated"))
      fmt::print("           of {} facts that changed: {:.3f} right, {:.3f} as they were before\n",
                 method.at("updated").at("n").get<size_t>(), method.at("updated").at("score").get<double>(),
                 method.at("updated").at("stale").get<double>());
  }
  print_cache_use(result);
}

void eval_recall(const CLI::App& command, RecallFlags flags) {
  RecallOptions options = flags.task;
  if (flags.synthetic == !options.files.empty())
    throw Error(ErrorCode::invalid_argument,
                "eval recall takes either --synthetic, for a dialogue made here, or -f FILE in the format of LoCoMo or "
                "RealTalk");
  check_model_flags(flags.model);
  options.length = options.files.empty() ? task_lengths(command, {}, flags.model)[0] : 0;
  options.seed = flags.seed;
  check_recall(options);
  const Json result = run_eval_task(flags, "asking", [&](const EvalSetup& setup) {
    options.setup = setup;
    return run_recall(options);
  });
  flags.json ? print_json(result) : print(result, options.methods);
}

}  // namespace

void add_eval_recall(CLI::App& eval) {
  const auto flags = std::make_shared<RecallFlags>();
  RecallOptions& task = flags->task;
  CLI::App* command = eval.add_subcommand("recall", "a long conversation, kept in some way and asked about at its end");
  add_eval_flags(*command, *flags, true);
  command->add_flag("--synthetic", flags->synthetic, "a dialogue made here, with -c tokens");
  command->add_option("-f,--file", task.files, "conversations in the format of LoCoMo or RealTalk");
  command->add_flag("--cut", task.cut, "of a file's conversation that is too long for -c, the part that fits");
  command->add_option("--questions", task.questions, "of a file's conversation, spread over them; 0: all")
      ->capture_default_str();
  std::string names;
  for (const std::string& name : memory_methods()) names += (names.empty() ? "" : ", ") + name;
  command
      ->add_option("--method", task.methods,
                   "how the past is kept: " + names + "; in the codec of --kv, selected in 16 bits")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--budget", task.budget, "tokens that a method other than full keeps, per KV head and layer");
  command->add_option("--budget-ratio", task.budget_ratio, "the same as a share of the conversation");
  command->add_option("--block", task.block, "tokens read between two selections; 0: as the budget, 128 to 1024")
      ->capture_default_str();
  command->add_option("--episodes", task.episodes, "epicache: episodes")->capture_default_str();
  command->add_option("--representatives", task.representatives, "epicache: segments in an episode's prompt")
      ->capture_default_str();
  command->add_flag(
      "--match-centroids", task.match_centroids,
      "epicache: ask the episode with the nearest centroid, as published; else that of the nearest segment");
  command->add_option("--alpha", task.alpha, "layers that need their past more keep more; 0: all keep the same")
      ->capture_default_str();
  command
      ->add_option(
          "--encoder", task.encoder,
          "epicache, rag: what texts are about, by their words, the model's hidden states, or a GGUF embedding "
          "model: words, hidden, FILE")
      ->capture_default_str();
  command->add_option("--facts", task.facts, "facts in a dialogue; 0: two for each topic")->capture_default_str();
  command->add_option("--updates", task.updates, "facts that change later; -1: one in four")->capture_default_str();
  command->add_option("--topics", task.topics, "topics of a dialogue; 0: as many as -c has room for, up to 12")
      ->capture_default_str();
  command->add_option("--chats", task.chats, "dialogues")->capture_default_str();
  command->add_option("-n,--answer-tokens", task.answer_tokens, "most tokens of an answer")->capture_default_str();
  command->callback([flags, command] { eval_recall(*command, *flags); });
}

}  // namespace kvasir::cli
