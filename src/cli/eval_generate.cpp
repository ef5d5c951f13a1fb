// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir eval generate: how long greedy text stays what a base cache writes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/eval_tasks.h"
#include "eval/generation_agreement.h"

namespace kvasir::cli {
namespace {

struct GenerateFlags : EvalFlags {
  std::vector<std::string> prompts;
  std::string base = "f16";
  int count = GenerationOptions().count, tokens = GenerationOptions().tokens;
  int64_t prompt_tokens = GenerationOptions().prompt_tokens;
};

void print(const Json& r) {
  fmt::print("agreement    {:.2f} % of {} tokens, running free\n", 100 * r.at("agreement").get<double>(),
             r.at("n").get<size_t>());
  fmt::print("first change {:.1f} +- {:.1f} tokens in; {:.0f} % of the prompts without any\n",
             r.at("first_difference").get<double>(), r.at("first_difference_se").get<double>(),
             100 * r.at("identical").get<double>());
  fmt::print("same top     {:.2f} % while fed the base's text\n", 100 * r.at("forced_agreement").get<double>());
  print_cache_use(r);
}

void eval_generate(const CLI::App& command, GenerateFlags flags) {
  check_model_flags(flags.model);
  GenerationOptions options;
  options.base = as_argument([&] { return SourceSpec::parse(flags.base, CacheOptions()); });
  options.prompts = flags.prompts;
  options.count = flags.count;
  options.prompt_tokens = flags.prompt_tokens;
  options.tokens = flags.tokens;
  options.seed = flags.seed;
  if (command.count("--ctx-size") > 0 && flags.prompts.empty())
    options.prompt_tokens = std::max<int64_t>(flags.model.context - flags.tokens, 1);
  if (flags.prompts.empty()) flags.model.context = options.prompt_tokens + flags.tokens;  // what is planned and noted
  Json result = run_eval_task(flags, "writing", [&](const EvalSetup& setup) {
    options.setup = setup;
    return run_generation_agreement(options);
  });
  result["base"] = flags.base;
  flags.json ? print_json(result) : print(result);
}

}  // namespace

void add_eval_generate(CLI::App& eval) {
  const auto flags = std::make_shared<GenerateFlags>();
  CLI::App* command = eval.add_subcommand("generate", "how long greedy text stays what a base cache writes");
  add_eval_flags(*command, *flags, true);
  command->add_option("-p,--prompt", flags->prompts, "a prompt; may be given several times. Default: made here");
  command->add_option("--prompts", flags->count, "how many to make")->capture_default_str();
  command->add_option("--prompt-tokens", flags->prompt_tokens, "about how long; -c sets it to what -n leaves")
      ->capture_default_str();
  command->add_option("-n,--tokens", flags->tokens, "tokens to write for each prompt")->capture_default_str();
  command->add_option("--base", flags->base, "what to compare with: native[:K[,V]] or a codec")->capture_default_str();
  command->callback([flags, command] { eval_generate(*command, *flags); });
}

}  // namespace kvasir::cli
