// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/perplexity.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/parallel.h"
#include "eval/divergence_summary.h"
#include "eval/kl_divergence.h"
#include "eval/text_chunks.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

using Json = nlohmann::json;

std::unique_ptr<LogitSource> open(const EvalSetup& setup, const SourceSpec& spec, int micro_batch) {
  try {
    return make_source(setup.model, spec, setup.context, micro_batch, setup.threads);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    throw Error(ErrorCode::invalid_argument, error.what());
  }
}

// Reads windows through one cache or two in lockstep.
class Walk {
 public:
  Walk(const PerplexityOptions& options, int micro_batch)
      : options_(options),
        micro_batch_(micro_batch),
        width_(size_t(options.setup.model->vocab_size())),
        test_(open(options.setup, options.setup.kv, micro_batch)) {
    if (options.base) base_ = open(options.setup, *options.base, micro_batch);
    if (test_->cache() && options.setup.on_cache) options.setup.on_cache(*test_->cache());
  }

  // Without a base every position is compared with itself: only `nll` says something then.
  void window(std::span<const int32_t> tokens, std::vector<LogitDivergence>& out,
              const std::function<void(size_t)>& progress) {
    const size_t scored = tokens.size() / 2;
    test_->restart();
    if (base_) base_->restart();
    for (size_t first = 0; first < tokens.size();) {
      const bool want = first >= scored;
      const size_t step = want && options_.step ? 1 : size_t(micro_batch_);
      const size_t end = std::min(first + step, want ? tokens.size() : scored);
      test_->append(tokens.subspan(first, end - first), want, test_logits_);
      if (base_) base_->append(tokens.subspan(first, end - first), want, base_logits_);
      if (want) score(tokens, first, std::min(end, tokens.size() - 1), out);
      first = end;
      progress(end);
    }
  }

  const LogitSource& test() const { return *test_; }

 private:
  // Positions [first, last) of the window, whose rows start at 0.
  void score(std::span<const int32_t> tokens, size_t first, size_t last, std::vector<LogitDivergence>& out) {
    const size_t start = out.size();
    out.resize(start + last - first);
    const std::vector<float>& base_logits = base_ ? base_logits_ : test_logits_;
    parallel_for(int(last - first), options_.setup.threads, [&](int row, int) {
      const size_t offset = size_t(row) * width_;
      out[start + size_t(row)] =
          compare_logits({base_logits.data() + offset, width_}, {test_logits_.data() + offset, width_},
                         tokens[first + size_t(row) + 1]);
    });
  }

  const PerplexityOptions& options_;
  int micro_batch_;
  size_t width_;
  std::unique_ptr<LogitSource> test_, base_;
  std::vector<float> test_logits_, base_logits_;
};

std::string chunk_line(size_t done, size_t all, const DivergenceSummary& s, bool paired) {
  std::string line = fmt::format("window {}/{}: perplexity {:.4f} +- {:.4f}", done, all, s.ppl, s.ppl_se);
  if (paired) line += fmt::format(", ln(ratio) {:+.5f} +- {:.5f}", s.ln_ppl_ratio.mean, s.ln_ppl_ratio.se);
  return line;
}

}  // namespace

Json run_perplexity(const PerplexityOptions& options) {
  const EvalSetup& setup = options.setup;
  if (options.chunks < 0)
    throw Error(ErrorCode::invalid_argument, fmt::format("--chunks takes 0 (all) or more, got {}", options.chunks));
  const auto chunks = cut_chunks(*setup.model, options.text, setup.context, options.chunks);
  const int wanted = int(std::min<int64_t>(setup.micro_batch, setup.context));
  Walk walk(options, lockstep_micro_batch(setup.model->vocab_size(), wanted));
  std::vector<LogitDivergence> positions;
  const int64_t total = int64_t(chunks.size()) * setup.context;
  for (size_t i = 0; i < chunks.size(); ++i) {
    walk.window(chunks[i], positions, [&](size_t done) {
      if (setup.progress) setup.progress(int64_t(i) * setup.context + int64_t(done), total);
    });
    if (setup.note) setup.note(chunk_line(i + 1, chunks.size(), summarize(positions), options.base.has_value()));
  }
  const DivergenceSummary s = summarize(positions);
  Json result = {{"ppl", s.ppl},
                 {"ppl_se", s.ppl_se},
                 {"tokens", positions.size()},
                 {"chunks", chunks.size()},
                 {"context", setup.context},
                 {"step", options.step},
                 {"bits_per_value", walk.test().bits_per_value()},
                 {"bytes", walk.test().bytes()},
                 {"bytes_f16", walk.test().bytes_f16()}};
  if (walk.test().cache()) result["nonfinite"] = walk.test().cache()->stats().nonfinite;
  if (!options.base) return result;
  result["ppl_base"] = s.ppl_base;
  result["ppl_base_se"] = s.ppl_base_se;
  result["ln_ppl_ratio"] = {{"mean", s.ln_ppl_ratio.mean}, {"se", s.ln_ppl_ratio.se}};
  result["kld"] = {{"mean", s.kld.mean}, {"se", s.kld.se}};
  result["top1"] = s.top1.mean;
  return result;
}

}  // namespace kvasir
