// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/eval_tasks.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/effective_config.h"
#include "eval/presets.h"

namespace kvasir::cli {

void add_eval_tasks(CLI::App& eval) {
  add_eval_ppl(eval);
  add_eval_needle(eval);
  add_eval_ruler(eval);
  add_eval_recall(eval);
  add_eval_generate(eval);
}

void add_eval_flags(CLI::App& command, EvalFlags& flags, bool seeded) {
  add_model_flags(command, flags.model);
  add_cache_flags(command, flags.cache);
  command.get_option("--kv")->description(command.get_option("--kv")->get_description() +
                                          "; native:K[,V] for llama.cpp's own cache, as in native:q4_0; published "
                                          "settings by name (" +
                                          preset_names() + ")");
  command.add_option("--preset", flags.cache.kv, "the same as --kv with a preset's name");
  if (seeded) {
    command.add_flag("--raw", flags.raw, "no chat template: the text as it is");
    command.add_option("--seed", flags.seed, "of everything that is drawn")->capture_default_str();
  }
  command.add_flag("--json", flags.json, "print one JSON object");
}

SourceSpec spec_under_test(const CacheFlags& flags) {
  const CacheOptions options = cache_options_without_codecs(flags);
  const std::string text = flags.kv_text();
  const bool ruled = !options.overrides.empty() || options.budget > 0 || !options.protect;
  if (find_preset(text)) {
    const CacheFlags defaults;
    if (ruled || flags.sink != defaults.sink || flags.recent != defaults.recent)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} brings its own windows, layers and protections; drop --sink, --recent, --kv-layers, "
                              "--kv-budget and --no-protect, or name its codec instead",
                              text));
    return as_argument([&] { return method_spec(text, options); });
  }
  SourceSpec spec = as_argument([&] { return SourceSpec::parse(text, options); });
  if (spec.native && ruled)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("--kv {} is llama.cpp's own cache, which knows no --kv-layers, --kv-budget or --no-protect; "
                    "drop them",
                    text));
  return spec;
}

std::vector<int64_t> task_lengths(const CLI::App& command, const std::vector<int64_t>& lengths, ModelFlags& flags) {
  if (!lengths.empty()) {
    const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    if (command.count("--ctx-size") == 0) flags.context = longest;
    return lengths;
  }
  if (flags.context == 0)
    throw Error(ErrorCode::invalid_argument,
                "-c 0 is the context that the model was trained for; name one, as in "
                "-c 8192, or several with --lengths");
  return {flags.context};
}

Json run_eval_task(const EvalFlags& flags, const std::string& label,
                   const std::function<nlohmann::json(const EvalSetup&)>& task) {
  check_model_flags(flags.model);
  EvalSetup setup;
  setup.kv = spec_under_test(flags.cache);
  setup.model = load_model(flags.model);
  setup.context = context_length(flags.model, *setup.model);
  setup.micro_batch = flags.model.micro_batch;
  setup.threads = thread_count(flags.model);
  setup.raw = flags.raw;

  std::unique_ptr<ProgressBar> bar;
  Json effective = {{"native", true},
                    {"type_k", setup.kv.type_k},
                    {"type_v", setup.kv.type_v},
                    {"context", setup.context},
                    {"threads", setup.threads}};
  if (setup.kv.native) note(fmt::format("cache: llama.cpp's own, K {}, V {}", setup.kv.type_k, setup.kv.type_v));
  setup.on_cache = [&](const Cache& cache) {
    note_cache(cache, setup.context, setup.threads);
    effective = effective_json(cache, setup.context, setup.micro_batch, setup.threads);
  };
  setup.note = [&](const std::string& line) {
    if (bar) bar->clear();
    note(line);
  };
  setup.progress = [&](int64_t done, int64_t total) {
    if (!bar) bar = std::make_unique<ProgressBar>(label, total);
    bar->set(done);
  };
  const Stopwatch watch;
  Json result = task(setup);
  if (bar) bar->clear();
  result["model"] = setup.model->path();
  result["kv"] = flags.cache.kv_text();
  result["effective"] = effective;
  result["seconds"] = watch.seconds();
  result["peak_rss"] = peak_resident_bytes();
  return result;
}

std::string score_text(const Json& cell) {
  return fmt::format("{:.3f} +- {:.3f}", cell.at("score").get<double>(), cell.at("score_se").get<double>());
}

void print_cache_use(const Json& result) {
  if (!result.contains("bits_per_value")) return;
  fmt::print("cache        {:.3f} bits a value, {} ({} in 16 bits)\n", result.at("bits_per_value").get<double>(),
             format_bytes(result.at("bytes").get<size_t>()), format_bytes(result.at("bytes_f16").get<size_t>()));
}

}  // namespace kvasir::cli
