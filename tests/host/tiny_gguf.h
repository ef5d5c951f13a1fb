// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Small GGUF files with random weights, for architectures that no small model exists of. Written through the public
// gguf API; a byte-level vocabulary makes them tokenize and speak (nonsense).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "kvasir/engine.h"
#include "tests/base/temporary_folder.h"

namespace kvasir::test {

inline constexpr int kTinyVocabulary = 264;  // 256 bytes, <s>, </s>, <unk> and padding

struct TinyModel {
  std::string_view architecture = "llama";  // a literal: llama, qwen2, qwen3, gemma2, gemma3, gpt-oss, mpt,
                                            // smollm3 (each 4th layer doesn't turn), mistral3, glm4
  int layers = 2;
  int heads = 4;
  int kv_heads = 2;
  int head_dim = 64;
  int embedding = 64;
  int feed_forward = 96;
  int context = 8192;
  int window = 0;                       // gemma2, gemma3, gpt-oss
  int window_period = 2;                // every such layer is full
  float softcap = 0.0f;                 // gemma2
  int long_rope = 0;                    // llama: original context length of LongRoPE factors
  int rotary = 0;                       // glm4: channels that turn; 0: all
  float temperature = 0.0f;             // mistral3: queries grow with their position by it
  std::string_view chat_template = {};  // tokenizer.chat_template; empty: none
  bool dead_pair = false;               // qwen3, gemma3: norms that leave nothing of the first pair's two halves
  uint64_t seed = 1;
};

void write_tiny_gguf(const TinyModel& model, const std::string& path);

// Written to `folder` as model.gguf, and loaded.
std::shared_ptr<Model> tiny_model(const TemporaryFolder& folder, const TinyModel& model);

// Metadata and vocabulary only, with the given numbers and flags beside them ("{arch}" isn't expanded).
void write_bare_gguf(const std::string& architecture, const std::map<std::string, uint32_t>& numbers,
                     const std::map<std::string, bool>& flags, const std::string& path);

}  // namespace kvasir::test
