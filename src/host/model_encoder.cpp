// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/model_encoder.h"

#include <fmt/format.h>
#include <llama-cpp.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <vector>

#include "base/checksum.h"
#include "host/llama_log.h"
#include "host/token_batch.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

std::vector<float> unit(std::vector<float> x) {
  double energy = 0;
  for (const float value : x) energy += double(value) * double(value);
  if (!std::isfinite(energy))
    throw Error(ErrorCode::internal, "the encoder's vector isn't finite; this model is broken");
  const float factor = energy > 0 ? float(1.0 / std::sqrt(energy)) : 0.0f;
  for (float& value : x) value *= factor;
  return x;
}

class ModelEncoder : public Encoder {
 public:
  // `owner` keeps `model` alive.
  ModelEncoder(std::shared_ptr<const void> owner, llama_model* model, enum llama_pooling_type pooling, std::string name,
               bool centered, int threads)
      : owner_(std::move(owner)), model_(model), name_(std::move(name)), centered_(centered), batch_(kEncodedTokens) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = params.n_batch = params.n_ubatch = kEncodedTokens;
    params.n_threads = params.n_threads_batch = threads;
    params.embeddings = true;
    params.pooling_type = pooling;
    params.no_perf = true;
    clear_llama_error();
    context_.reset(llama_init_from_model(model, params));
    if (!context_) throw Error(ErrorCode::unsupported, "llama.cpp can't embed with this model: " + llama_error());
    if (llama_pooling_type(context_.get()) == LLAMA_POOLING_TYPE_RANK)
      throw Error(ErrorCode::unsupported, "`" + name_ + "` ranks pairs of texts and makes no vectors; choose another");
  }

  std::string name() const override { return name_; }

  void learn(std::span<const std::string> segments) override {
    mean_.clear();
    if (!centered_ || segments.empty()) return;
    std::vector<double> sum;
    for (const std::string& segment : segments) {
      const std::vector<float> x = unit(pooled(segment));
      sum.resize(x.size(), 0.0);
      for (size_t c = 0; c < x.size(); ++c) sum[c] += double(x[c]);
    }
    for (const double value : sum) mean_.push_back(float(value / double(segments.size())));
  }

  std::vector<float> learned() const override { return mean_; }
  void put_back(std::span<const float> learned) override {
    if (learned.size() != size_t(llama_model_n_embd(model_)))
      throw Error(ErrorCode::invalid_argument, "what another encoder learned can't be put back into `" + name_ + "`");
    mean_.assign(learned.begin(), learned.end());
  }

  std::vector<std::vector<float>> encode_segments(std::span<const std::string> segments) override {
    std::vector<std::vector<float>> vectors;
    for (const std::string& segment : segments) vectors.push_back(encode_query(segment));
    return vectors;
  }

  std::vector<float> encode_query(const std::string& query) override {
    std::vector<float> x = unit(pooled(query));
    if (mean_.empty()) return x;
    for (size_t c = 0; c < x.size(); ++c) x[c] -= mean_[c];
    return unit(std::move(x));
  }

 private:
  std::vector<float> pooled(const std::string& text) {
    const llama_vocab* vocab = llama_model_get_vocab(model_);
    std::vector<llama_token> tokens(static_cast<size_t>(kEncodedTokens));
    int count = llama_tokenize(vocab, text.data(), int32_t(text.size()), tokens.data(), kEncodedTokens, true, false);
    if (count < 0) {  // longer
      tokens.resize(size_t(-count));
      llama_tokenize(vocab, text.data(), int32_t(text.size()), tokens.data(), -count, true, false);
      count = kEncodedTokens;
    }
    const size_t width = size_t(llama_model_n_embd(model_));
    if (count == 0) return std::vector<float>(width, 0.0f);
    batch_.clear();
    for (int t = 0; t < count; ++t) batch_.add(tokens[size_t(t)], t, 0, true);
    if (llama_memory_t memory = llama_get_memory(context_.get())) llama_memory_clear(memory, true);
    clear_llama_error();
    const bool encodes = llama_model_has_encoder(model_) && !llama_model_has_decoder(model_);
    const int status =
        encodes ? llama_encode(context_.get(), batch_.get()) : llama_decode(context_.get(), batch_.get());
    const float* x = status == 0 ? llama_get_embeddings_seq(context_.get(), 0) : nullptr;
    if (x == nullptr)
      throw Error(ErrorCode::internal, fmt::format("llama.cpp made no vector of a text of {} tokens (status {}): {}",
                                                   count, status, llama_error()));
    return {x, x + width};
  }

  std::shared_ptr<const void> owner_;
  llama_model* model_;
  std::string name_;
  bool centered_;
  TokenBatch batch_;
  std::vector<float> mean_;
  llama_context_ptr context_;
};

}  // namespace

std::unique_ptr<Encoder> make_hidden_state_encoder(const std::shared_ptr<Model>& model, int threads) {
  return std::make_unique<ModelEncoder>(model, model->handle(), LLAMA_POOLING_TYPE_MEAN,
                                        "hidden states of " + model->fingerprint(), true, threads);
}

std::unique_ptr<Encoder> load_embedding_encoder(const std::string& path, int threads) {
  if (!std::filesystem::exists(path))
    throw Error(ErrorCode::not_found, "no embedding model `" + path + "`; give the path of a GGUF file");
  clear_llama_error();
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = 0;
  const std::shared_ptr<llama_model> model(llama_model_load_from_file(path.c_str(), params), [](llama_model* loaded) {
    if (loaded) llama_model_free(loaded);
  });
  if (!model) throw Error(ErrorCode::corrupt, "`" + path + "` is no GGUF that llama.cpp can load: " + llama_error());
  // What the file says; language models say nothing, and get the mean.
  char said[8] = "";
  char key[96] = "";
  const bool known =
      llama_model_meta_val_str(model.get(), "general.architecture", key, sizeof key) > 0 &&
      llama_model_meta_val_str(model.get(), (std::string(key) + ".pooling_type").c_str(), said, sizeof said) > 0;
  return std::make_unique<ModelEncoder>(model, model.get(),
                                        known ? LLAMA_POOLING_TYPE_UNSPECIFIED : LLAMA_POOLING_TYPE_MEAN,
                                        std::filesystem::path(path).filename().string(), false, threads);
}

}  // namespace kvasir
