// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads a text of any length under a bound: block by block, dropping tokens after each (block-wise prefill eviction,
// EpiCache, arXiv 2509.17396 Algorithm 1).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kvasir/engine.h"
#include "select/attention_scores.h"

namespace kvasir {

// By what a token is judged.
enum class SelectionMethod {
  prompt,  // attention from a prompt that is read after each block and then forgotten (EpiCache, InfiniPot, KVzip)
  window,  // attention from the block's last tokens, averaged over neighbours; those tokens stay (SnapKV)
  key_difference,  // how much its key differs from the others (KeyDiff)
  recent,          // its age (StreamingLLM)
};

struct SelectionOptions {
  SelectionMethod method = SelectionMethod::prompt;
  // Tokens per KV head for each layer, sinks included. Layers with sliding windows forget by themselves: theirs doesn't
  // count.
  std::vector<int64_t> budgets;
  int block = 1024;         // tokens read between two selections
  double head_floor = 0.2;  // share of its layer's budget that each head keeps at least; 1: all heads keep the same
  int window = 64;          // SelectionMethod::window
  // SelectionMethod::prompt: what to read after a block.
  std::function<std::vector<int32_t>(std::span<const int32_t> block)> prompt;
};

// One text on its way into a sequence of an engine whose cache has 16-bit codecs. After any number of appended tokens
// each layer holds at most its budget and one block; the same text in other portions gives the same cache.
class BlockPrefill {
 public:
  // Throws Error: invalid_argument (budgets below the sinks, or not one for each layer, a block of no tokens, no
  // prompt), unsupported (a cache that isn't 16 bits).
  BlockPrefill(Engine& engine, SelectionOptions options);
  // Goes on from a sequence of the engine's cache, which is this object's from now on.
  BlockPrefill(Engine& engine, SelectionOptions options, SequenceId sequence);
  ~BlockPrefill();
  BlockPrefill(const BlockPrefill&) = delete;
  BlockPrefill& operator=(const BlockPrefill&) = delete;
  // Another reading of the same beginning, with its own way to select: what has been read isn't read again. Where
  // tokens were dropped already, they stay dropped. Throws Error invalid_argument: SelectionMethod::window needs the
  // queries of the block that was read last.
  std::unique_ptr<BlockPrefill> fork(SelectionOptions options) const;

  // Reads whole blocks as they fill up; the rest waits. Throws what Engine::decode throws.
  void append(std::span<const int32_t> tokens);
  // Reads what waits, and selects if over budget. More may be appended: it begins a new block.
  void finish();

  // The cache's sequence. It holds whole blocks until finish().
  SequenceId sequence() const { return sequence_; }
  // Hands the sequence over: it outlives this object.
  SequenceId release();
  // Whether the next selection will drop anything.
  bool over_budget() const;
  // Most bytes that this sequence took at any moment, its prompt included.
  size_t peak_bytes() const { return peak_bytes_; }
  int64_t tokens_read() const { return tokens_read_; }  // with prompts
  int64_t prompt_tokens() const { return prompt_tokens_; }

 private:
  using ObserveQueries = std::function<void(int layer, const AttentionRows& rows, int64_t first)>;
  void decode(SequenceId sequence, std::span<const int32_t> tokens, const ObserveQueries& observe);
  void read_block(std::span<const int32_t> block);
  bool selects(int layer) const;
  bool over_budget(int layer) const;
  AttentionScores scores_of(int layer, int head, ScoreReduction reduction) const;  // none yet
  void score_prompt();
  std::vector<float> token_scores(int layer, int head) const;  // one for each position held
  void select();
  void select(int layer);

  Engine& engine_;
  SelectionOptions options_;
  AttentionOptions attention_;
  SequenceId sequence_ = -1;
  std::vector<int32_t> waiting_;                      // not yet read
  std::vector<int32_t> block_;                        // read, not yet selected from
  std::vector<std::vector<AttentionScores>> scores_;  // [layers][kv_heads], by the prompt
  std::vector<std::vector<float>> queries_;           // [layers], of the window: [tokens, heads, key_dim]
  int64_t queries_start_ = 0;                         // position of the first
  size_t peak_bytes_ = 0;
  int64_t tokens_read_ = 0, prompt_tokens_ = 0;
};

}  // namespace kvasir
