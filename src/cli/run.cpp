// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir run: one prompt, one answer.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/chat_prompt.h"
#include "cli/commands.h"
#include "cli/effective_config.h"
#include "cli/generation.h"
#include "cli/kept_calibration.h"
#include "cli/model_flags.h"
#include "cli/terminal.h"

namespace kvasir::cli {
namespace {

struct RunFlags {
  ModelFlags model;
  CacheFlags cache;
  SamplingFlags sampling;
  std::string prompt, file, system;
  int64_t most_tokens = -1;
  bool raw = false;
  bool json = false;
};

void check_flags(const RunFlags& flags) {
  check_model_flags(flags.model);
  check_sampling_flags(flags.sampling);
  if (flags.most_tokens < -1)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("-n takes -1 (until the end) or more tokens, got {}", flags.most_tokens));
  if (flags.raw && !flags.system.empty())
    throw Error(ErrorCode::invalid_argument,
                "--system goes through the chat template, which --raw leaves out; drop one of them");
}

std::string prompt_text(const RunFlags& flags) {
  std::string text = flags.file.empty() ? flags.prompt : read_text(flags.file);
  if (!flags.file.empty() && text.ends_with('\n')) text.pop_back();  // the one that editors add
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    throw Error(ErrorCode::invalid_argument, "the prompt is empty; give -p TEXT or -f FILE");
  return text;
}

void run(const RunFlags& flags) {
  check_flags(flags);
  const CacheOptions options = cache_options(flags.cache);
  const std::string text = prompt_text(flags);
  const std::shared_ptr<Model> model = load_model(flags.model);
  const std::vector<int32_t> prompt = first_prompt(*model, text, flags.system, flags.raw);

  calibrate_on_first_use(model, flags.cache, options, thread_count(flags.model));
  Engine engine(model, engine_options(flags.model, *model, options));
  Cache& cache = engine.cache();
  const EngineOptions& effective = engine.options();
  note_cache(cache, effective.context, effective.threads);
  Sampler sampler(flags.sampling);
  const SequenceId sequence = cache.create();
  const InterruptGuard interrupt;

  const Stopwatch watch;
  const std::span<const float> logits = prefill(engine, sequence, prompt, interrupt);
  const double prefill_seconds = watch.seconds();
  note_key_offsets(cache);
  Generated answer;
  answer.stop = StopReason::interrupted;
  if (!logits.empty()) {
    answer = generate(engine, sequence, logits, sampler, flags.most_tokens, interrupt, [&](std::string_view piece) {
      if (flags.json) return;
      std::fwrite(piece.data(), 1, piece.size(), stdout);
      std::fflush(stdout);
    });
  }
  const double prefill_tps = prefill_seconds > 0 ? double(prompt.size()) / prefill_seconds : 0.0;
  const CacheSize size = cache.size();
  if (!flags.json) {
    std::fputc('\n', stdout);
    std::fflush(stdout);
  }
  note(fmt::format(
      "{} prompt tokens at {:.1f}/s, {} tokens at {:.1f}/s, stopped by {}; KV cache {} of {} in f16 ({:.2f} bits a "
      "value); peak memory {}; seed {}",
      prompt.size(), prefill_tps, answer.tokens.size(), answer.tokens_per_second(), to_string(answer.stop),
      format_bytes(size.total()), format_bytes(size.bytes_f16), size.bits_per_value(),
      format_bytes(peak_resident_bytes()), sampler.seed()));
  const uint64_t nonfinite = cache.stats().nonfinite;
  if (nonfinite > 0) note(fmt::format("warning: {} keys or values were NaN or infinite and were saturated", nonfinite));
  if (!flags.json) return;
  print_json({{"text", answer.text},
              {"prompt_tokens", prompt.size()},
              {"tokens", answer.tokens.size()},
              {"prefill_tps", prefill_tps},
              {"decode_tps", answer.tokens_per_second()},
              {"reused_tokens", 0},
              {"stop", to_string(answer.stop)},
              {"kv", kv_json(cache)},
              {"peak_rss", peak_resident_bytes()},
              {"nonfinite", nonfinite},
              {"seed", sampler.seed()},
              {"model", model->path()},
              {"effective", effective_json(cache, effective.context, effective.micro_batch, effective.threads)},
              {"layers", layers_json(cache)}});
}

}  // namespace

void add_run(CLI::App& program) {
  const auto flags = std::make_shared<RunFlags>();
  CLI::App* command = program.add_subcommand("run", "generate text after a prompt");
  add_model_flags(*command, flags->model);
  add_cache_flags(*command, flags->cache);
  add_sampling_flags(*command, flags->sampling);
  CLI::Option* prompt = command->add_option("-p,--prompt", flags->prompt, "the prompt");
  command->add_option("-f,--file", flags->file, "a file that holds the prompt; - for stdin")->excludes(prompt);
  command
      ->add_option("-n,--predict,--n-predict", flags->most_tokens, "most tokens to generate; -1: until the model ends")
      ->capture_default_str();
  command->add_option("--system", flags->system, "a system message for the chat template (also -sys)");
  command->add_flag("--raw", flags->raw, "continue the prompt as it is, without the model's chat template");
  command->add_flag("--json", flags->json, "print one JSON object instead of the text");
  command->callback([flags] { run(*flags); });
}

}  // namespace kvasir::cli
