// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/demo_method.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "cli/effective_config.h"
#include "cli/model_flags.h"
#include "eval/divergence_summary.h"
#include "eval/document_tokens.h"
#include "eval/logit_divergence.h"
#include "kvasir/error.h"

namespace kvasir::cli {
namespace {

constexpr uint64_t kSeed = 1;
constexpr int kScoredChunk = 32;  // rows of logits in memory at once
// Which of the document's facts is asked for, some 2,000 tokens before its end by default: the last one of those that
// SmolLM2 finds with its f16 cache without missing a nearer one.
constexpr size_t kAskedFact = 5;

// Reads and generates with one engine.
class DemoRun {
 public:
  DemoRun(const DemoPlan& plan, const std::string& kv) : plan_(plan) {
    ModelFlags flags;
    flags.model = plan.model;
    flags.threads = plan.threads;
    model_ = Model::load(resolve_model(plan.model, note));
    written_ = tokenize_document(*model_, kSeed, plan.tokens);
    if (written_.document.facts.empty() || int64_t(written_.tokens.size()) <= plan.scored + 1)
      throw Error(ErrorCode::invalid_argument, fmt::format("--tokens {} is too short for the demo", plan.tokens));
    const PlantedFact& fact = asked();
    const std::string beginning = fact.sentence.substr(0, fact.sentence.find(fact.answer) - 1);
    question_ = model_->tokenize(fmt::format("\n{}", beginning), false, false);
    flags.context = int64_t(written_.tokens.size() + question_.size()) + plan.generate;
    CacheOptions cache;
    parse_kv(kv, cache);
    cache.use_kept = false;  // the same table whatever this machine has kept
    engine_ = std::make_unique<Engine>(model_, engine_options(flags, *model_, cache));
    sequence_ = engine_->cache().create();
  }

  // All of the document but the scored end and its last token.
  Json read(ProgressBar& bar) {
    const auto text = std::span<const int32_t>(written_.tokens).first(scored_start());
    const Stopwatch watch;
    for (size_t first = 0; first < text.size();) {
      const auto part = text.subspan(first, std::min(text.size() - first, size_t(engine_->options().micro_batch)));
      engine_->decode(sequence_, part);
      bar.set(int64_t(first += part.size()));
    }
    return double(text.size()) / watch.seconds();
  }

  // Calls `row(i, logits, next)` for each scored position.
  template <typename Row>
  void score(ProgressBar& bar, Row row) {
    for (int first = 0; first < plan_.scored; first += kScoredChunk) {
      const size_t start = scored_start() + size_t(first);
      const int count = std::min(kScoredChunk, plan_.scored - first);
      const EngineSpan span{sequence_, std::span<const int32_t>(written_.tokens).subspan(start, size_t(count)), true};
      engine_->decode({&span, 1}, [&](int, int token, const float* logits) {
        row(first + token, logits, written_.tokens[start + size_t(token) + 1]);
      });
      bar.set(int64_t(start) + count);
    }
  }

  // The rest of the document, the question, and the likeliest tokens.
  Json generate() {
    std::vector<int32_t> prompt = {written_.tokens.back()};
    prompt.insert(prompt.end(), question_.begin(), question_.end());
    std::span<const float> logits = engine_->decode(sequence_, prompt);
    std::string text;
    int tokens = 0;
    const Stopwatch watch;
    while (tokens < plan_.generate) {
      const int32_t next = int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
      if (model_->is_end(next)) break;
      text += model_->piece(next);
      logits = engine_->decode(sequence_, {&next, 1});
      ++tokens;
    }
    const double seconds = watch.seconds();
    const PlantedFact& fact = asked();
    const size_t before = model_->tokenize(written_.document.text.substr(0, fact.offset), true, false).size();
    return {{"text", text},
            {"found", text.find(fact.answer) != std::string::npos},
            {"fact",
             {{"sentence", fact.sentence}, {"answer", fact.answer}, {"tokens_back", written_.tokens.size() - before}}},
            {"prompt_tokens", written_.tokens.size() + question_.size()},
            {"tokens", tokens},
            {"decode_tps", tokens / seconds}};
  }

  const Cache& cache() const { return engine_->cache(); }
  int64_t document_tokens() const { return int64_t(written_.tokens.size()); }
  int vocab_size() const { return model_->vocab_size(); }
  const Model& model() const { return *model_; }
  int threads() const { return engine_->options().threads; }
  Json effective() const {
    const EngineOptions& options = engine_->options();
    return effective_json(cache(), options.context, options.micro_batch, options.threads);
  }

 private:
  const PlantedFact& asked() const {
    const std::vector<PlantedFact>& facts = written_.document.facts;
    return facts[std::min(kAskedFact, facts.size() - 1)];
  }
  size_t scored_start() const { return written_.tokens.size() - 1 - size_t(plan_.scored); }

  DemoPlan plan_;
  std::shared_ptr<Model> model_;
  TokenizedDocument written_;
  std::vector<int32_t> question_;
  std::unique_ptr<Engine> engine_;
  SequenceId sequence_ = 0;
};

}  // namespace

LogitFile::LogitFile() : file_(std::tmpfile()) {
  if (file_ == nullptr) throw Error(ErrorCode::io, fmt::format("no temporary file: {}", std::strerror(errno)));
}
LogitFile::~LogitFile() {
  std::fclose(file_);
}

// Positions are given with every call: the processes that use the file share one.
void LogitFile::write(int row, const float* logits, int count) {
  const size_t bytes = size_t(count) * sizeof(float);
  if (::pwrite(::fileno(file_), logits, bytes, off_t(bytes) * row) != ssize_t(bytes))
    throw Error(ErrorCode::io, "the temporary file for the f16 run's logits can't be written; is the disk full?");
}
void LogitFile::read(int row, float* logits, int count) const {
  const size_t bytes = size_t(count) * sizeof(float);
  if (::pread(::fileno(file_), logits, bytes, off_t(bytes) * row) != ssize_t(bytes))
    throw Error(ErrorCode::io, "the temporary file with the f16 run's logits can't be read");
}

Json run_demo_method(const DemoPlan& plan, const std::string& kv, bool reference, LogitFile& logits) {
  DemoRun run(plan, kv);
  note(fmt::format("{}: reading {} tokens ...", kv, run.document_tokens()));
  ProgressBar bar(kv, run.document_tokens());
  Json result = {{"prefill_tps", run.read(bar)}};
  const int words = run.vocab_size();
  std::vector<LogitDivergence> positions;
  std::vector<float> base(reference ? 0 : size_t(words));
  run.score(bar, [&](int row, const float* ours, int32_t next) {
    if (reference) return logits.write(row, ours, words);
    logits.read(row, base.data(), words);
    positions.push_back(compare_logits(base, {ours, size_t(words)}, next));
  });
  if (!reference) {
    const DivergenceSummary summary = summarize(positions);
    result["kld"] = {{"mean", summary.kld.mean}, {"se", summary.kld.se}};
    result["top1"] = summary.top1.mean;
  }
  bar.clear();
  result.update(run.generate());
  result["kv"] = kv_json(run.cache());
  result["effective"] = run.effective();
  result["model"] = run.model().description();
  result["document_tokens"] = run.document_tokens();
  result["threads"] = run.threads();
  result["peak_rss"] = peak_resident_bytes();
  return result;
}

}  // namespace kvasir::cli
