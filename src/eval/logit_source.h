// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Whatever turns tokens into logits: a Kvasir cache or llama.cpp's own, behind one face, so that any two can be
// compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kvasir/engine.h"

namespace kvasir {

// A cache in names: `native[:K[,V]]` is llama.cpp's own with those ggml types (f16 if none are named), anything else a
// Kvasir cache as in --kv.
struct SourceSpec {
  bool native = false;
  std::string type_k = "f16", type_v = "f16";  // native only
  CacheOptions cache;                          // Kvasir only

  // Windows, overrides and budget are taken from `cache`. Throws what parse_kv throws.
  static SourceSpec parse(const std::string& text, const CacheOptions& cache);
};

class LogitSource {
 public:
  virtual ~LogitSource() = default;
  virtual void restart() = 0;  // an empty context
  // Appends tokens; with `want_logits` writes [tokens, vocab_size] to `logits`, which is resized.
  virtual void append(std::span<const int32_t> tokens, bool want_logits, std::vector<float>& logits) = 0;
  virtual double bits_per_value() const = 0;  // of what is held now, everything counted
  virtual size_t bytes() const = 0;
  virtual size_t bytes_f16() const = 0;                   // the same tokens in 16 bits
  virtual const Cache* cache() const { return nullptr; }  // null for llama.cpp's own
};

// `context` tokens fit; no `append` call is longer than `micro_batch`.
std::unique_ptr<LogitSource> make_source(std::shared_ptr<Model> model, const SourceSpec& spec, int64_t context,
                                         int micro_batch, int threads);

}  // namespace kvasir
