// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/suite_kld.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "eval/divergence_summary.h"
#include "eval/lockstep.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> codec_lines(const SourceSpec& spec, const LogitSource& source) {
  if (source.cache() == nullptr) return {"llama.cpp's own cache: K " + spec.type_k + ", V " + spec.type_v};
  std::vector<std::string> lines;
  std::istringstream text(source.cache()->describe());
  for (std::string line; std::getline(text, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}

template <typename Value>
Json column(const std::vector<LogitDivergence>& positions, Value value) {
  Json values = Json::array();
  for (const LogitDivergence& position : positions) values.push_back(value(position));
  return values;
}

Json window_json(const LockstepRun& run, const SourceSpec& spec, size_t tokens, double base_seconds) {
  const LogitSource& source = *run.source;
  return {{"bits_per_value", source.bits_per_value()},
          {"bytes", source.bytes()},
          {"bytes_f16", source.bytes_f16()},
          {"tokens", tokens},
          {"seconds", run.seconds},
          {"seconds_base", base_seconds},
          {"codecs", codec_lines(spec, source)},
          {"nonfinite", source.cache() ? source.cache()->stats().nonfinite : 0},
          {"kld", column(run.positions, [](const LogitDivergence& p) { return p.kld; })},
          {"nll", column(run.positions, [](const LogitDivergence& p) { return p.nll; })},
          {"nll_base", column(run.positions, [](const LogitDivergence& p) { return p.nll_base; })},
          {"same_top", column(run.positions, [](const LogitDivergence& p) { return p.same_top ? 1 : 0; })}};
}

void append_positions(const Json& window, std::vector<LogitDivergence>& positions) {
  const Json& kld = window.at("kld");
  for (size_t i = 0; i < kld.size(); ++i) {
    LogitDivergence position;
    position.kld = kld[i].get<double>();
    position.nll = window.at("nll").at(i).get<double>();
    position.nll_base = window.at("nll_base").at(i).get<double>();
    position.same_top = window.at("same_top").at(i).get<int>() != 0;
    positions.push_back(position);
  }
}

}  // namespace

std::vector<KldWindowResult> run_kld_window(const KldWindow& job) {
  const int vocab = job.model->vocab_size();
  const int64_t context = int64_t(job.tokens.size());
  const int micro_batch =
      lockstep_micro_batch(vocab, int(std::min<int64_t>(job.micro_batch, context)), int(job.methods.size()) + 1);
  const auto base = make_source(job.model, job.base, context, micro_batch, job.threads);
  std::vector<KldWindowResult> results;
  std::vector<std::unique_ptr<LogitSource>> sources;
  std::vector<LockstepRun> runs;
  std::vector<size_t> owner;  // of runs[i] in results
  for (const SuiteMethod* method : job.methods) {
    KldWindowResult& result = results.emplace_back();
    result.method = method;
    try {
      sources.push_back(make_source(job.model, method->spec, context, micro_batch, job.threads));
      runs.emplace_back().source = sources.back().get();
      owner.push_back(results.size() - 1);
    } catch (const Error& error) {
      result.failure = error.what();
      result.unsupported = error.code() == ErrorCode::unsupported;
    }
  }
  if (runs.empty()) return results;
  const double base_seconds = score_in_lockstep(*base, runs, job.tokens, vocab, micro_batch, job.threads, job.progress);
  for (size_t i = 0; i < runs.size(); ++i) {
    KldWindowResult& result = results[owner[i]];
    result.failure = runs[i].failure;
    if (result.failure.empty())
      result.window = window_json(runs[i], result.method->spec, job.tokens.size(), base_seconds);
  }
  return results;
}

Json kld_result(const std::vector<Json>& windows) {
  std::vector<LogitDivergence> positions;
  double seconds = 0, base_seconds = 0, tokens = 0;
  uint64_t nonfinite = 0;
  for (const Json& window : windows) {
    append_positions(window, positions);
    seconds += window.at("seconds").get<double>();
    base_seconds += window.at("seconds_base").get<double>();
    tokens += window.at("tokens").get<double>();
    nonfinite += window.at("nonfinite").get<uint64_t>();
  }
  const DivergenceSummary s = summarize(positions);
  const Json& last = windows.back();
  return {{"kld",
           {{"mean", s.kld.mean},
            {"se", s.kld.se},
            {"median", s.kld_median},
            {"p90", s.kld_p90},
            {"p95", s.kld_p95},
            {"p99", s.kld_p99},
            {"p999", s.kld_p999},
            {"max", s.kld_max}}},
          {"ppl", s.ppl},
          {"ppl_se", s.ppl_se},
          {"ppl_base", s.ppl_base},
          {"ppl_base_se", s.ppl_base_se},
          {"ln_ppl_ratio", {{"mean", s.ln_ppl_ratio.mean}, {"se", s.ln_ppl_ratio.se}}},
          {"top1", s.top1.mean},
          {"top1_se", s.top1.se},
          {"delta_p", {{"mean", s.delta_p.mean}, {"rms", s.delta_p_rms}}},
          {"bits_per_value", last.at("bits_per_value")},
          {"bytes", last.at("bytes")},
          {"bytes_f16", last.at("bytes_f16")},
          {"windows", windows.size()},
          {"tokens", s.positions},
          {"prefill_tps", seconds > 0 ? tokens / seconds : 0.0},
          {"prefill_tps_base", base_seconds > 0 ? tokens / base_seconds : 0.0},
          {"codecs", last.at("codecs")},
          {"nonfinite", nonfinite}};
}

}  // namespace kvasir
