// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/logit_source.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "kvasir/error.h"

namespace kvasir {
namespace {

// Where the engine's callback copies its rows to.
class RowCopy {
 public:
  RowCopy(std::vector<float>& rows, size_t count, size_t width) : rows_(rows), width_(width) {
    rows.resize(count * width);
  }
  void operator()(int, int token, const float* logits) const {
    std::copy_n(logits, width_, rows_.begin() + std::ptrdiff_t(size_t(token) * width_));
  }

 private:
  std::vector<float>& rows_;
  size_t width_;
};

class KvasirSource : public LogitSource {
 public:
  KvasirSource(std::shared_ptr<Model> model, EngineOptions options)
      : engine_(std::move(model), std::move(options)), sequence_(engine_.cache().create()) {}

  void restart() override {
    engine_.cache().remove(sequence_);
    sequence_ = engine_.cache().create();
  }
  void append(std::span<const int32_t> tokens, bool want_logits, std::vector<float>& logits) override {
    if (!want_logits) {
      engine_.decode(sequence_, tokens);
      return;
    }
    const EngineSpan span{sequence_, tokens, true};
    engine_.decode({&span, 1}, RowCopy(logits, tokens.size(), size_t(engine_.model().vocab_size())));
  }
  double bits_per_value() const override { return engine_.cache().size().bits_per_value(); }
  size_t bytes() const override { return engine_.cache().size().total(); }
  size_t bytes_f16() const override { return engine_.cache().size().bytes_f16; }
  const Cache* cache() const override { return &engine_.cache(); }

 private:
  Engine engine_;
  SequenceId sequence_;
};

class NativeSource : public LogitSource {
 public:
  NativeSource(std::shared_ptr<Model> model, const SourceSpec& spec, int64_t context, int micro_batch, int threads)
      : width_(size_t(model->vocab_size())),
        engine_(std::move(model), spec.type_k, spec.type_v, context, micro_batch, threads) {}

  void restart() override { engine_.clear(); }
  void append(std::span<const int32_t> tokens, bool want_logits, std::vector<float>& logits) override {
    if (want_logits)
      engine_.decode(tokens, true, RowCopy(logits, tokens.size(), width_));
    else
      engine_.decode(tokens, false, {});
  }
  double bits_per_value() const override { return engine_.bits_per_value(); }
  size_t bytes() const override { return engine_.cache_bytes(); }
  size_t bytes_f16() const override { return size_t(double(bytes()) * 16.0 / bits_per_value() + 0.5); }

 private:
  size_t width_;
  NativeEngine engine_;
};

}  // namespace

SourceSpec SourceSpec::parse(const std::string& text, const CacheOptions& cache) {
  constexpr std::string_view kNative = "native";
  SourceSpec spec;
  spec.cache = cache;
  if (text != kNative && !text.starts_with("native:")) {
    parse_kv(text, spec.cache);
    return spec;
  }
  spec.native = true;
  if (text == kNative) return spec;
  const std::string types = text.substr(kNative.size() + 1);
  const size_t comma = types.find(',');
  spec.type_k = types.substr(0, comma);
  spec.type_v = comma == std::string::npos ? spec.type_k : types.substr(comma + 1);
  if (spec.type_k.empty() || spec.type_v.empty())
    throw Error(ErrorCode::invalid_argument, "native takes ggml types as in native:q8_0,q4_0, got '" + text + "'");
  return spec;
}

std::unique_ptr<LogitSource> make_source(std::shared_ptr<Model> model, const SourceSpec& spec, int64_t context,
                                         int micro_batch, int threads) {
  if (spec.native) return std::make_unique<NativeSource>(std::move(model), spec, context, micro_batch, threads);
  EngineOptions options;
  options.cache = spec.cache;
  options.context = context;
  options.micro_batch = micro_batch;
  options.threads = threads;
  return std::make_unique<KvasirSource>(std::move(model), std::move(options));
}

}  // namespace kvasir
