// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir eval ppl: perplexity through the cache, paired with a base.
#include "eval/perplexity.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/eval_tasks.h"

namespace kvasir::cli {
namespace {

struct PplFlags : EvalFlags {
  std::string file, base = "f16";
  int chunks = 0;
  bool step = false;
};

void print(const Json& r) {
  fmt::print("perplexity   {:.4f} +- {:.4f} over {} tokens\n", r.at("ppl").get<double>(), r.at("ppl_se").get<double>(),
             r.at("tokens").get<size_t>());
  if (r.contains("ppl_base")) {
    const Json& ratio = r.at("ln_ppl_ratio");
    fmt::print("base         {:.4f} +- {:.4f}  ln(ratio) {:+.5f} +- {:.5f}\n", r.at("ppl_base").get<double>(),
               r.at("ppl_base_se").get<double>(), ratio.at("mean").get<double>(), ratio.at("se").get<double>());
  }
  print_cache_use(r);
}

void eval_ppl(const PplFlags& flags) {
  check_model_flags(flags.model);
  if (flags.file.empty())
    throw Error(ErrorCode::invalid_argument, "no text: -f takes the file to read, or - for stdin");
  PerplexityOptions options;
  options.chunks = flags.chunks;
  options.step = flags.step;
  if (flags.base != "none") options.base = as_argument([&] { return SourceSpec::parse(flags.base, CacheOptions()); });
  options.text = read_text(flags.file);
  Json result = run_eval_task(flags, "evaluating", [&](const EvalSetup& setup) {
    options.setup = setup;
    return run_perplexity(options);
  });
  result["file"] = flags.file;
  result["base"] = flags.base;
  flags.json ? print_json(result) : print(result);
}

}  // namespace

void add_eval_ppl(CLI::App& eval) {
  const auto flags = std::make_shared<PplFlags>();
  CLI::App* command = eval.add_subcommand("ppl", "perplexity through the cache, against a base over the same tokens");
  add_eval_flags(*command, *flags, false);
  command->add_option("-f,--file", flags->file, "the text to read");
  command->add_option("--chunks", flags->chunks, "windows of -c tokens to read; 0: all")->capture_default_str();
  command->add_option("--base", flags->base, "what to compare with: native[:K[,V]], a codec, or none")
      ->capture_default_str();
  command->add_flag("--step", flags->step, "the scored half of each window token by token, as in generation");
  command->callback([flags] { eval_ppl(*flags); });
}

}  // namespace kvasir::cli
