// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir run: one prompt, one answer.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>

#include "cli/chat_prompt.h"
#include "cli/commands.h"
#include "cli/effective_config.h"
#include "cli/generation.h"
#include "cli/kept_calibration.h"
#include "cli/kept_session.h"
#include "cli/model_flags.h"
#include "cli/terminal.h"

namespace kvasir::cli {
namespace {

struct RunFlags {
  ModelFlags model;
  CacheFlags cache;
  SamplingFlags sampling;
  std::string prompt, file, system;
  std::optional<std::string> session;
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
  if (flags.raw && flags.session && text.empty()) return text;       // goes on where a limit stopped
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    throw Error(ErrorCode::invalid_argument, "the prompt is empty; give -p TEXT or -f FILE");
  return text;
}

using OnText = std::function<void(std::string_view)>;

// Without a session: one prompt, one answer.
Turn answer_once(Engine& engine, const std::vector<int32_t>& prompt, Sampler& sampler, int64_t most_tokens,
                 const InterruptGuard& interrupt, const OnText& on_text) {
  Turn turn;
  turn.fed_tokens = prompt.size();
  const SequenceId sequence = engine.cache().create();
  const Stopwatch watch;
  const std::span<const float> logits = prefill(engine, sequence, prompt, interrupt);
  turn.prefill_seconds = watch.seconds();
  turn.answer.stop = StopReason::interrupted;
  if (!logits.empty()) turn.answer = generate(engine, sequence, logits, sampler, most_tokens, interrupt, on_text);
  return turn;
}

// One more turn of a session, saved. Interrupted while reading a raw prompt, it stays as it was.
Turn answer_in_session(KeptSession& kept, Engine& engine, const RunFlags& flags, const std::string& text,
                       Sampler& sampler, const InterruptGuard& interrupt, const OnText& on_text) {
  if (flags.raw || !has_chat_template(engine.model())) {
    if (!flags.system.empty())
      throw Error(ErrorCode::invalid_argument, "this model has no chat template, so --system has no place");
    RawText raw = kept.raw_text(engine);
    Turn turn = raw.go_on(text, sampler, flags.most_tokens, interrupt, on_text);
    if (raw.complete())
      kept.save(engine, raw);
    else
      note("interrupted while reading the prompt: the session stays as it was");
    return turn;
  }
  Conversation conversation = kept.conversation(engine, flags.system);
  Turn turn = conversation.say(text, sampler, flags.most_tokens, interrupt, on_text);
  kept.save(engine, conversation);
  return turn;
}

void note_run(const RunFlags& flags, const Turn& turn, double prefill_tps, const Cache& cache, const Sampler& sampler) {
  const CacheSize size = cache.size();
  const std::string reused = !flags.session ? "" : fmt::format(" after {} of the session", turn.reused_tokens);
  note(fmt::format(
      "{} prompt tokens{} at {:.1f}/s, {} tokens at {:.1f}/s, stopped by {}; KV cache {} of {} in f16 ({:.2f} bits a "
      "value); peak memory {}; seed {}",
      turn.fed_tokens, reused, prefill_tps, turn.answer.tokens.size(), turn.answer.tokens_per_second(),
      to_string(turn.answer.stop), format_bytes(size.total()), format_bytes(size.bytes_f16), size.bits_per_value(),
      format_bytes(peak_resident_bytes()), sampler.seed()));
  const uint64_t nonfinite = cache.stats().nonfinite;
  if (nonfinite > 0) note(fmt::format("warning: {} keys or values were NaN or infinite and were saturated", nonfinite));
}

void run(const RunFlags& flags) {
  check_flags(flags);
  const CacheOptions options = cache_options(flags.cache);
  const std::string text = prompt_text(flags);
  std::optional<KeptSession> kept;
  if (flags.session) kept.emplace(*flags.session);
  const std::shared_ptr<Model> model = load_model(flags.model);
  std::vector<int32_t> prompt;
  if (kept)
    kept->check_room(context_length(flags.model, *model));
  else
    prompt = first_prompt(*model, text, flags.system, flags.raw);

  // What is resumed has the codecs that it has.
  if (!kept || !kept->resumes()) calibrate_on_first_use(model, flags.cache, options, thread_count(flags.model));
  Engine engine(model, engine_options(flags.model, *model, options));
  Cache& cache = engine.cache();
  const EngineOptions& effective = engine.options();
  note_cache(cache, effective.context, effective.threads);
  Sampler sampler(flags.sampling);
  const InterruptGuard interrupt;
  const OnText on_text = [&](std::string_view piece) {
    if (flags.json) return;
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
  };
  const Turn turn = kept ? answer_in_session(*kept, engine, flags, text, sampler, interrupt, on_text)
                         : answer_once(engine, prompt, sampler, flags.most_tokens, interrupt, on_text);
  if (!flags.json) {
    std::fputc('\n', stdout);
    std::fflush(stdout);
  }
  note_key_offsets(cache);
  const double prefill_tps = turn.prefill_seconds > 0 ? double(turn.fed_tokens) / turn.prefill_seconds : 0.0;
  note_run(flags, turn, prefill_tps, cache, sampler);
  if (!flags.json) return;
  Json result = {{"text", turn.answer.text},
                 {"prompt_tokens", turn.reused_tokens + turn.fed_tokens},
                 {"tokens", turn.answer.tokens.size()},
                 {"prefill_tps", prefill_tps},
                 {"prefill_seconds", turn.prefill_seconds},
                 {"decode_tps", turn.answer.tokens_per_second()},
                 {"reused_tokens", turn.reused_tokens},
                 {"stop", to_string(turn.answer.stop)},
                 {"kv", kv_json(cache)},
                 {"peak_rss", peak_resident_bytes()},
                 {"nonfinite", cache.stats().nonfinite},
                 {"seed", sampler.seed()},
                 {"model", model->path()},
                 {"effective", effective_json(cache, effective.context, effective.micro_batch, effective.threads)},
                 {"layers", layers_json(cache)}};
  if (kept) result["session"] = kept->json();
  print_json(result);
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
  add_session_flag(*command, flags->session);
  command->add_flag("--raw", flags->raw, "continue the prompt as it is, without the model's chat template");
  command->add_flag("--json", flags->json, "print one JSON object instead of the text");
  command->callback([flags] { run(*flags); });
}

}  // namespace kvasir::cli
