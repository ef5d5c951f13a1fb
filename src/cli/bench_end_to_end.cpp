// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// `kvasir bench end-to-end`: whole models at several lengths, with our cache and with llama.cpp's own ones.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/bench.h"
#include "cli/end_to_end_run.h"
#include "kvasir/engine.h"
#include "kvasir/error.h"

namespace kvasir::cli {
namespace {

struct Flags {
  ModelFlags model;  // of the run that is going on
  std::vector<std::string> models;
  std::vector<int64_t> contexts = {4096};
  std::string kv = "auto";
  EndToEndOptions run;
  CacheOptions cache;
  bool no_protect = false, json = false;
  bool single() const { return models.size() == 1 && contexts.size() == 1; }
};

// All that can be known before a model is loaded. Names are resolved, so that a wrong one is found before minutes of
// measuring the others.
void check_flags(Flags& flags) {
  if (flags.models.empty()) throw Error(ErrorCode::invalid_argument, kNoModel);
  for (const std::string& model : flags.models)
    for (const int64_t context : flags.contexts) {
      flags.model.model = model;
      flags.model.context = context;
      check_model_flags(flags.model);
      if (flags.run.decode < 1 || flags.run.round < 1 || (context != 0 && context <= flags.run.decode))
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("-n and --round take 1 or more tokens, and -c more than -n; got -n {} --round {} -c {}",
                                flags.run.decode, flags.run.round, context));
    }
  flags.run.codecs = parse_codec_list(flags.kv, flags.cache);
  flags.run.native = native_list(flags.run.native);
  for (const std::string& model : flags.models) resolve_model(model, note);
}

// Adds to `runs` as they end.
void run_all(Flags& flags, std::vector<EndToEndRun>& runs) {
  for (const std::string& name : flags.models) {
    flags.model.model = name;
    const std::shared_ptr<Model> model = load_model(flags.model);
    for (const int64_t context : flags.contexts) {
      flags.model.context = context;
      if (!flags.single() && context > model->trained_context()) {
        note(fmt::format("{} was trained for {} tokens: {} left out", name, model->trained_context(), context));
        continue;
      }
      note_untrained_context(context, *model);
      if (context_length(flags.model, *model) <= flags.run.decode)
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{} was trained for {} tokens, and -n {} leaves none of them for a prompt", name,
                                model->trained_context(), flags.run.decode));
      runs.push_back(run_end_to_end(model, flags.model, flags.run));
      if (flags.json) continue;
      if (runs.size() > 1) fmt::print("\n");
      print_run(runs.back());
      std::fflush(stdout);
    }
  }
  if (runs.empty())
    throw Error(ErrorCode::invalid_argument, "every -c is more than the models were trained for: choose smaller ones");
}

void print_all(const Flags& flags, const std::vector<EndToEndRun>& runs) {
  const std::vector<EndToEndLine> summary = end_to_end_summary(runs);
  if (!flags.json) {
    if (!flags.single()) print_summary(summary);
  } else if (flags.single()) {
    print_json(run_json(runs[0]));
  } else {
    Json all = {{"runs", Json::array()}, {"summary", summary_json(summary)}};
    for (const EndToEndRun& run : runs) all["runs"].push_back(run_json(run));
    print_json(all);
  }
}

}  // namespace

void add_bench_end_to_end(CLI::App& bench) {
  CLI::App* command = bench.add_subcommand(
      "end-to-end", "prefill and decode of whole models, at several lengths, against llama.cpp's own caches");
  const auto flags = std::make_shared<Flags>();
  flags->run.native = {"f16", "q8_0", "q4_0"};
  add_model_option(*command, flags->models)->delimiter(',');
  add_context_option(*command, flags->contexts)->delimiter(',');
  add_compute_flags(*command, flags->model);
  command->add_option("-n,--predict", flags->run.decode, "tokens to generate")->capture_default_str();
  command->add_option("--kv", flags->kv, "codecs A,B,... (K/V for a pair)")->capture_default_str();
  command->add_option("--native", flags->run.native, "llama.cpp's cache types to compare with; none: none; q4_0 takes longest")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--sink", flags->cache.sink, "first tokens kept in 16 bits")->capture_default_str();
  command->add_option("--recent", flags->cache.recent, "last tokens kept in 16 bits")->capture_default_str();
  command->add_option("--round", flags->run.round, "tokens that an engine generates before the next has its turn")
      ->capture_default_str();
  command->add_flag("--no-protect", flags->no_protect, "leave out the codec's default protections");
  command->add_flag("--json", flags->json, "print one JSON object");
  command->callback([flags] {
    flags->cache.protect = !flags->no_protect;
    check_flags(*flags);
    std::vector<EndToEndRun> runs;
    try {
      run_all(*flags, runs);
    } catch (...) {
      // What was measured until then took minutes; the status still says that something failed.
      if (!runs.empty()) print_all(*flags, runs);
      throw;
    }
    print_all(*flags, runs);
  });
}

}  // namespace kvasir::cli
