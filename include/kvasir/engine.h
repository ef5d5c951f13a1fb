// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The llama.cpp host. An unmodified llama.cpp computes everything but attention: its scheduler stops once a layer at
// the attention node (GGML_OP_FLASH_ATTN_EXT), Kvasir takes the new keys and values, attends over its own compressed
// cache and overwrites the node's result. llama.cpp's own cache holds one micro-batch and is cleared before each.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kvasir/attention.h"
#include "kvasir/cache.h"

struct llama_model;
struct llama_context;
struct llama_vocab;

namespace kvasir {

// A loaded GGUF, shared by engines and native contexts.
class Model {
 public:
  // `progress` gets 0..1. Throws Error: not_found, corrupt (not a GGUF, truncated), unsupported (recurrent, hybrid,
  // encoder, embedding and MLA models, by name and with the reason).
  static std::shared_ptr<Model> load(const std::string& path, std::function<void(float)> progress = {});
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  llama_model* handle() const;
  const llama_vocab* vocab() const;
  const std::string& path() const;
  // Sixteen hex digits that tell models apart: the same for every weight quantization of one model, since it is made
  // of names, shapes and the tensors that stay in F32 (norms, biases). host/model_fingerprint.h.
  const std::string& fingerprint() const;
  std::string name() const;          // general.name, or the file's
  std::string architecture() const;  // general.architecture
  std::string description() const;   // llama.cpp's one-line description
  int vocab_size() const;
  int64_t trained_context() const;  // tokens
  // LongRoPE models only (else 0): the longest context whose RoPE factors llama.cpp picks with a short cache.
  int64_t context_limit() const;
  // Read from the attention nodes of a dry pass, windows proven by what llama.cpp allocates (host/geometry.h).
  const Geometry& geometry() const;

  std::vector<int32_t> tokenize(const std::string& text, bool add_special, bool parse_special) const;
  std::string piece(int32_t token) const;
  bool is_end(int32_t token) const;  // an end-of-generation token
  int32_t bos() const;               // -1 if the model has none
  // One user message (and earlier turns) in the model's own chat template; empty if the file has none.
  struct Message {
    std::string role, content;
  };
  std::string apply_chat_template(std::span<const Message> messages, bool add_assistant) const;

 private:
  Model();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct EngineOptions {
  CacheOptions cache;
  int64_t context = 4096;  // -c: most tokens of one sequence; beyond it decode throws context_full
  int micro_batch = 512;   // tokens of one llama_decode; llama.cpp's own cache is this long
  int threads = 2;
  // Called for every layer of a micro-batch once its attention has run. Everything it is given lives until it returns.
  std::function<void(int layer, const AttentionRows& rows)> observe;
};

// Tokens of one sequence in a batch.
struct EngineSpan {
  SequenceId sequence = 0;
  std::span<const int32_t> tokens;
  bool all_logits = false;  // logits of every token, not only the last
};

// A model with Kvasir's cache under it.
class Engine {
 public:
  // Codecs that are fitted to a model come from options.cache.fitted, or by host/fitted_codecs.h.
  // Throws Error: what Cache throws, and unsupported where the model's graph can't be taken over.
  Engine(std::shared_ptr<Model> model, EngineOptions options);
  ~Engine();

  Model& model() const;
  Cache& cache() const;
  const EngineOptions& options() const;

  // Appends the spans' tokens to their sequences, several sequences in one micro-batch where they fit, several
  // micro-batches where they don't. `on_logits` is called in order for each row asked for: the span's index, the
  // token's index in the span, vocab_size() floats that live until it returns.
  // Throws Error context_full (both numbers) and out_of_memory before anything is computed.
  using LogitsFn = std::function<void(int span, int token, const float* logits)>;
  void decode(std::span<const EngineSpan> spans, const LogitsFn& on_logits);

  // The position that the first token of every sequence has for the model's layers; 0 unless set. Attention is the same
  // wherever a text starts, keys and queries aren't: calibrations measure so how they turn.
  void start_at(int64_t position);

  // Takes the place of EngineOptions::observe; an empty function ends it.
  void observe(std::function<void(int layer, const AttentionRows& rows)> observer);

  // One sequence, logits of the last token. The view lives until the next decode.
  std::span<const float> decode(SequenceId sequence, std::span<const int32_t> tokens);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// llama.cpp's own cache, untouched: the baseline of `--base native` and `--kv native:q4_0`.
class NativeEngine {
 public:
  // `type_k`, `type_v`: ggml type names (f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl).
  // Throws Error not_found (names the types), unsupported (llama.cpp can't hold that pair).
  NativeEngine(std::shared_ptr<Model> model, const std::string& type_k, const std::string& type_v, int64_t context,
               int micro_batch, int threads);
  ~NativeEngine();
  void clear();
  // Appends tokens to sequence 0; `on_logits` as in Engine::decode with span 0.
  void decode(std::span<const int32_t> tokens, bool all_logits, const Engine::LogitsFn& on_logits);
  size_t cache_bytes() const;  // bytes of the K and V tensors llama.cpp allocated
  double bits_per_value() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Resolves a GGUF path or the name of a small model (`smollm2`, `gemma3-270m`, `qwen2.5-coder-0.5b`,
// `qwen2.5-coder-1.5b`, each also with `-f32`: the copy with F32 weights, made once through llama_model_quantize) to
// a file. `progress` gets one line per step.
// Throws Error not_found: the message says which command fetches the model.
std::string resolve_model(const std::string& name_or_path,
                          const std::function<void(const std::string&)>& progress = {});

}  // namespace kvasir
