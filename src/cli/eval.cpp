// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir eval: what a compressed cache costs in quality, measured through that cache.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/effective_config.h"
#include "cli/eval_tasks.h"
#include "cli/model_flags.h"
#include "cli/terminal.h"
#include "eval/divergence_summary.h"
#include "eval/kl_divergence.h"
#include "eval/presets.h"
#include "eval/text_chunks.h"

namespace kvasir::cli {
namespace {

struct KldFlags {
  ModelFlags model;
  CacheFlags cache;
  std::string file;
  std::string base = "f16";
  int chunks = 0;
  bool json = false;
};

// The reference keeps every token as the base says: windows and overrides belong to the cache under test.
SourceSpec base_spec(const KldFlags& flags) {
  return as_argument([&] { return SourceSpec::parse(flags.base, CacheOptions()); });
}

// An unknown ggml type only shows once llama.cpp is asked for a context, but it's a wrong argument all the same.
std::unique_ptr<LogitSource> open_source(const std::shared_ptr<Model>& model, const SourceSpec& spec, int64_t context,
                                         int micro_batch, int threads) {
  try {
    return make_source(model, spec, context, micro_batch, threads);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    throw Error(ErrorCode::invalid_argument, error.what());
  }
}

Json kld_json(const DivergenceSummary& s) {
  return {{"mean", s.kld.mean}, {"se", s.kld.se},   {"median", s.kld_median}, {"p90", s.kld_p90},
          {"p95", s.kld_p95},   {"p99", s.kld_p99}, {"p999", s.kld_p999},     {"max", s.kld_max}};
}

Json source_json(const LogitSource& source, const SourceSpec& spec, int64_t context, int micro_batch, int threads) {
  if (const Cache* cache = source.cache()) return effective_json(*cache, context, micro_batch, threads);
  return {{"native", true},     {"type_k", spec.type_k},      {"type_v", spec.type_v},
          {"context", context}, {"micro_batch", micro_batch}, {"threads", threads}};
}

void print_summary(const DivergenceSummary& s, double bits) {
  fmt::print("KLD          mean {:.3e} +- {:.1e}  median {:.2e}  p90 {:.2e}  p99 {:.2e}  max {:.2e}\n", s.kld.mean,
             s.kld.se, s.kld_median, s.kld_p90, s.kld_p99, s.kld_max);
  fmt::print("perplexity   {:.4f} +- {:.4f}  base {:.4f}  ln(ratio) {:+.5f} +- {:.5f}\n", s.ppl, s.ppl_se, s.ppl_base,
             s.ln_ppl_ratio.mean, s.ln_ppl_ratio.se);
  fmt::print("same top     {:.2f} % +- {:.2f}\n", 100 * s.top1.mean, 100 * s.top1.se);
  fmt::print("delta p      rms {:.3f} %  mean {:+.4f} %\n", 100 * s.delta_p_rms, 100 * s.delta_p.mean);
  fmt::print("cache        {:.3f} bits a value over {} scored tokens\n", bits, s.positions);
}

void note_source(const char* role, const LogitSource& source, const SourceSpec& spec, int64_t context, int threads) {
  if (const Cache* cache = source.cache()) {
    note(fmt::format("{}:", role));
    note_cache(*cache, context, threads);
  } else {
    note(fmt::format("{}: llama.cpp's own cache, K {}, V {}", role, spec.type_k, spec.type_v));
  }
}

void eval_kld(const KldFlags& flags) {
  check_model_flags(flags.model);
  if (flags.file.empty())
    throw Error(ErrorCode::invalid_argument, "no text: -f takes the file to read, or - for stdin");
  if (flags.chunks < 0)
    throw Error(ErrorCode::invalid_argument, fmt::format("--chunks takes 0 (all) or more, got {}", flags.chunks));
  const SourceSpec test = spec_under_test(flags.cache), base = base_spec(flags);
  const std::string text = read_text(flags.file);
  const std::shared_ptr<Model> model = load_model(flags.model);
  const int64_t context = context_length(flags.model, *model);
  const auto chunks = cut_chunks(*model, text, context, flags.chunks);
  const int threads = thread_count(flags.model);
  const int micro_batch =
      lockstep_micro_batch(model->vocab_size(), int(std::min<int64_t>(flags.model.micro_batch, context)));

  const auto base_source = open_source(model, base, context, micro_batch, threads);
  const auto test_source = open_source(model, test, context, micro_batch, threads);
  note_source("base", *base_source, base, context, threads);
  note_source("test", *test_source, test, context, threads);

  const Stopwatch watch;
  std::vector<LogitDivergence> positions;
  ProgressBar bar("evaluating", int64_t(chunks.size()) * context);
  for (size_t i = 0; i < chunks.size(); ++i) {
    score_chunk(
        *base_source, *test_source, chunks[i], model->vocab_size(), micro_batch, threads,
        [&](int64_t done) { bar.set(int64_t(i) * context + done); }, positions);
    const DivergenceSummary so_far = summarize(positions);
    bar.clear();
    note(fmt::format("chunk {}/{}: KLD {:.3e} +- {:.1e}, same top {:.2f} %, perplexity {:.3f} (base {:.3f}), {:.0f} s",
                     i + 1, chunks.size(), so_far.kld.mean, so_far.kld.se, 100 * so_far.top1.mean, so_far.ppl,
                     so_far.ppl_base, watch.seconds()));
  }
  const DivergenceSummary summary = summarize(positions);
  const double bits = test_source->bits_per_value();
  if (test_source->cache()) note_key_offsets(*test_source->cache());
  if (!flags.json) return print_summary(summary, bits);

  Json result = {{"kld", kld_json(summary)},
                 {"ppl", summary.ppl},
                 {"ppl_se", summary.ppl_se},
                 {"ppl_base", summary.ppl_base},
                 {"ppl_base_se", summary.ppl_base_se},
                 {"ln_ppl_ratio", {{"mean", summary.ln_ppl_ratio.mean}, {"se", summary.ln_ppl_ratio.se}}},
                 {"top1", summary.top1.mean},
                 {"top1_se", summary.top1.se},
                 {"delta_p", {{"mean", summary.delta_p.mean}, {"rms", summary.delta_p_rms}}},
                 {"bits_per_value", bits},
                 {"bytes", test_source->bytes()},
                 {"bytes_f16", test_source->bytes_f16()},
                 {"chunks", chunks.size()},
                 {"context", context},
                 {"tokens", positions.size()},
                 {"model", model->path()},
                 {"file", flags.file},
                 {"kv", flags.cache.kv_text()},
                 {"base", flags.base},
                 {"effective", source_json(*test_source, test, context, micro_batch, threads)},
                 {"effective_base", source_json(*base_source, base, context, micro_batch, threads)},
                 {"seconds", watch.seconds()},
                 {"peak_rss", peak_resident_bytes()}};
  if (const Cache* cache = test_source->cache()) {
    result["layers"] = layers_json(*cache);
    result["nonfinite"] = cache->stats().nonfinite;
  }
  print_json(result);
}

void add_kld(CLI::App& eval) {
  const auto flags = std::make_shared<KldFlags>();
  CLI::App* command = eval.add_subcommand("kld", "KL divergence, perplexity and top-1 agreement against a base cache");
  add_model_flags(*command, flags->model);
  add_cache_flags(*command, flags->cache);
  command->get_option("--kv")->description(command->get_option("--kv")->get_description() +
                                           "; native:K[,V] for llama.cpp's own cache, as in native:q4_0; "
                                           "published settings by name (" +
                                           preset_names() + "), which bring their own windows");
  command->add_option("--preset", flags->cache.kv, "the same as --kv with a preset's name");
  command->add_option("-f,--file", flags->file, "the text to read");
  command->add_option("--chunks", flags->chunks, "windows of -c tokens to read; 0: all")->capture_default_str();
  command->add_option("--base", flags->base, "what to compare with: native[:K[,V]] or a codec")->capture_default_str();
  command->add_flag("--json", flags->json, "print one JSON object");
  command->callback([flags] { eval_kld(*flags); });
}

}  // namespace

void add_eval(CLI::App& program) {
  CLI::App* eval = program.add_subcommand("eval", "measure what a compressed cache costs in quality");
  eval->require_subcommand(1);
  add_kld(*eval);
  add_eval_tasks(*eval);
  add_eval_suite(*eval);
}

}  // namespace kvasir::cli
