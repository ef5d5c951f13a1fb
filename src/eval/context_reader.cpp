// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/context_reader.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cache/scoped_sequence.h"
#include "eval/logit_divergence.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

double log_probability(std::span<const float> logits, int32_t token) {
  return -compare_logits(logits, logits, token).nll;
}

void rate_right_answer(Engine& engine, SequenceId asked, std::span<const float> first_logits,
                       std::span<const int32_t> right, ReadAnswer& answer) {
  if (right.empty()) return;
  answer.right_tokens = right.size();
  answer.right_log_likelihood = log_probability(first_logits, right[0]);
  if (right.size() == 1) return;
  const ScopedSequence fork(engine.cache(), engine.cache().fork(asked));
  const EngineSpan span{fork.id(), right.first(right.size() - 1), true};
  const size_t width = first_logits.size();
  engine.decode({&span, 1}, [&](int, int token, const float* logits) {
    answer.right_log_likelihood += log_probability({logits, width}, right[size_t(token) + 1]);
  });
}

void write_answer(Engine& engine, SequenceId asked, std::span<const float> logits, const ReadQuestion& question,
                  ReadAnswer& answer) {
  for (int i = 0; i < question.most_tokens; ++i) {
    const int32_t token = likeliest(logits);
    if (engine.model().is_end(token)) return;
    answer.text += engine.model().piece(token);
    if (i + 1 == question.most_tokens || (question.enough && question.enough(answer.text))) return;
    logits = engine.decode(asked, {&token, 1});
  }
}

class KvasirReader : public ContextReader {
 public:
  KvasirReader(std::shared_ptr<Model> model, EngineOptions options)
      : engine_(std::move(model), std::move(options)), context_(engine_.cache().create()) {}

  void restart() override {
    engine_.cache().remove(context_);
    context_ = engine_.cache().create();
  }
  void read(std::span<const int32_t> tokens) override {
    if (!tokens.empty()) engine_.decode(context_, tokens);
  }
  ReadAnswer ask(const ReadQuestion& question) override { return ask_in_fork(engine_, context_, question, &use_); }

  CacheUse use() const override { return use_; }
  const Cache* cache() const override { return &engine_.cache(); }

 private:
  Engine engine_;
  SequenceId context_;
  CacheUse use_;
};

class NativeReader : public ContextReader {
 public:
  NativeReader(std::shared_ptr<Model> model, const SourceSpec& spec, int64_t context, int micro_batch, int threads)
      : model_(std::move(model)), engine_(model_, spec.type_k, spec.type_v, context, micro_batch, threads) {}

  void restart() override { context_.clear(); }
  void read(std::span<const int32_t> tokens) override { context_.insert(context_.end(), tokens.begin(), tokens.end()); }

  ReadAnswer ask(const ReadQuestion& question) override {
    ReadAnswer answer;
    std::vector<float> logits = ask_again(question.tokens);
    const std::span<const int32_t> right = question.right_answer;
    answer.right_tokens = right.size();
    // The greedy answer is the right one as far as each of its tokens is the likeliest after those before it.
    bool greedy_is_right = !right.empty() && int(right.size()) <= question.most_tokens;
    const auto rate = [&](std::span<const float> row, size_t index) {
      answer.right_log_likelihood += log_probability(row, right[index]);
      greedy_is_right = greedy_is_right && likeliest(row) == right[index];
    };
    if (!right.empty()) rate(logits, 0);
    if (right.size() > 1) {
      const size_t width = logits.size();
      engine_.decode(right.first(right.size() - 1), true, [&](int, int token, const float* row) {
        rate({row, width}, size_t(token) + 1);
      });
    }
    if (greedy_is_right) {
      for (const int32_t token : right) answer.text += model_->piece(token);
      if (question.enough && question.enough(answer.text)) return answer;
      answer.text.clear();
    }
    if (right.size() > 1) logits = ask_again(question.tokens);  // llama.cpp's cache doesn't fork
    for (int i = 0; i < question.most_tokens; ++i) {
      const int32_t token = likeliest(logits);
      if (model_->is_end(token)) break;
      answer.text += model_->piece(token);
      if (i + 1 == question.most_tokens || (question.enough && question.enough(answer.text))) break;
      logits = last_logits({&token, 1});
    }
    return answer;
  }

  CacheUse use() const override {
    const double bits = engine_.bits_per_value();
    return {bits, engine_.cache_bytes(), size_t(std::llround(double(engine_.cache_bytes()) * 16.0 / bits))};
  }

 private:
  std::vector<float> last_logits(std::span<const int32_t> tokens) {
    std::vector<float> last;
    const size_t width = size_t(model_->vocab_size());
    engine_.decode(tokens, false, [&](int, int, const float* logits) { last.assign(logits, logits + width); });
    return last;
  }
  std::vector<float> ask_again(std::span<const int32_t> question) {
    std::vector<int32_t> all = context_;
    all.insert(all.end(), question.begin(), question.end());
    engine_.clear();
    return last_logits(all);
  }

  std::shared_ptr<Model> model_;
  NativeEngine engine_;
  std::vector<int32_t> context_;
};

}  // namespace

std::unique_ptr<ContextReader> make_reader(const EvalSetup& setup, int64_t context) {
  const int micro_batch = int(std::min<int64_t>(setup.micro_batch, context));
  if (setup.kv.native) {
    try {
      return std::make_unique<NativeReader>(setup.model, setup.kv, context, micro_batch, setup.threads);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::not_found) throw;
      throw Error(ErrorCode::invalid_argument, error.what());
    }
  }
  EngineOptions options;
  options.cache = setup.kv.cache;
  options.context = context;
  options.micro_batch = micro_batch;
  options.threads = setup.threads;
  auto reader = std::make_unique<KvasirReader>(setup.model, std::move(options));
  if (setup.on_cache) setup.on_cache(*reader->cache());
  return reader;
}

ReadAnswer ask_in_fork(Engine& engine, SequenceId context, const ReadQuestion& question, CacheUse* use) {
  const ScopedSequence fork(engine.cache(), engine.cache().fork(context));
  const std::span<const float> last = engine.decode(fork.id(), question.tokens);
  const std::vector<float> first_logits(last.begin(), last.end());
  ReadAnswer answer;
  rate_right_answer(engine, fork.id(), first_logits, question.right_answer, answer);
  write_answer(engine, fork.id(), first_logits, question, answer);
  if (use) {
    const CacheSize size = engine.cache().size(fork.id());
    *use = {size.bits_per_value(), size.total(), size.bytes_f16};
  }
  return answer;
}

int32_t likeliest(std::span<const float> logits) {
  int32_t best = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i])) throw Error(ErrorCode::internal, "the model's logits hold NaN; this run is broken");
    if (logits[i] > logits[size_t(best)]) best = int32_t(i);
  }
  return best;
}

}  // namespace kvasir
