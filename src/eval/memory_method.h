// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Ways to keep a long conversation, behind one face, so that all are asked the same.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "episode/encoder.h"
#include "eval/asked_conversation.h"
#include "eval/context_reader.h"
#include "eval/eval_setup.h"

namespace kvasir {

struct MemoryMethodOptions {
  int64_t budget = 1024;  // M: tokens per KV head and layer on average, sinks included; for `rag` tokens of text
  std::vector<int64_t> layer_budgets;  // the same, layer by layer
  int block = 1024;                    // B
  int episodes = 4;
  int representatives = kRepresentatives;
  bool match_segments = true;  // epicache, as in EpisodicOptions
  Encoder* encoder = nullptr;  // of epicache and rag
};

struct MemoryCost {
  CacheUse use;             // of what answers the last question; for epicache all episodes together
  size_t peak_bytes = 0;    // most that was held at once while reading, in 16 bits, with what was ready by then
  int64_t tokens_read = 0;  // decoded to get ready, prompts and repetitions included
  double reading_seconds = 0, asking_seconds = 0;
};

class MemoryMethod {
 public:
  virtual ~MemoryMethod() = default;
  virtual void read(const ConversationTokens& conversation) = 0;  // in place of any before
  virtual ReadAnswer ask(const std::string& text, const ReadQuestion& question) = 0;
  // Whether the last question went to a part of the memory that has one of these utterances among those it is about;
  // none where there are no parts.
  virtual std::optional<bool> routed_to(std::span<const size_t> utterances) const {
    (void)utterances;
    return std::nullopt;
  }
  virtual MemoryCost cost() const = 0;
  virtual const Cache* cache() const { return nullptr; }
};

// full, streaming (StreamingLLM), snapkv, keydiff, infinipot, kvzip, epicache, rag.
std::vector<std::string> memory_methods();

// Selection is done in 16 bits and sealed into the cache of `setup.kv`, which answers; `context` tokens fit.
// Throws Error invalid_argument: an unknown method, llama.cpp's own cache for any other than `full`.
std::unique_ptr<MemoryMethod> make_memory_method(const std::string& name, const EvalSetup& setup, int64_t context,
                                                 const MemoryMethodOptions& options);

}  // namespace kvasir
