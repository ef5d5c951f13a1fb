// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/block_prefill.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cache/scoped_sequence.h"
#include "kvasir/error.h"
#include "select/choose_tokens.h"
#include "select/key_difference.h"

namespace kvasir {
namespace {

constexpr int kNeighbours = 5;  // tokens that SnapKV averages a score over

void check(const Engine& engine, const SelectionOptions& options) {
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  const std::vector<LayerGeometry>& layers = engine.cache().geometry().layers;
  if (options.block < 1) refuse(fmt::format("a block takes 1 or more tokens, got {}", options.block));
  if (options.budgets.size() != layers.size())
    refuse(fmt::format("{} budgets for {} layers", options.budgets.size(), layers.size()));
  if (!(options.head_floor >= 0 && options.head_floor <= 1))
    refuse(fmt::format("the least share of a head is 0 to 1, got {}", options.head_floor));
  if (options.method == SelectionMethod::prompt && !options.prompt) refuse("no prompt to judge tokens by");
  if (options.method == SelectionMethod::window && options.window < 1)
    refuse(fmt::format("a window takes 1 or more tokens, got {}", options.window));
  const int sink = engine.cache().options().sink;
  const int kept = options.method == SelectionMethod::window ? options.window : 0;
  for (size_t l = 0; l < layers.size(); ++l) {
    if (layers[l].window > 0) continue;
    if (options.budgets[l] < sink + kept)
      refuse(
          fmt::format("layer {} may keep {} tokens, fewer than the {} that are kept in any case (--sink{}); raise "
                      "the budget, lower --sink, or give --alpha 0 where layers get unlike shares",
                      l, options.budgets[l], sink + kept, kept > 0 ? " and the window" : ""));
    for (const Side side : {Side::key, Side::value})
      if (!engine.cache().codec(int(l), side).raw())
        throw Error(ErrorCode::unsupported,
                    fmt::format("tokens are selected in 16 bits, and layer {} has {}; build with --kv f16 and seal the "
                                "result",
                                l, engine.cache().codec(int(l), side).name));
  }
}

// Means over kNeighbours tokens around each, fewer at the ends.
std::vector<float> smoothed(const std::vector<float>& scores) {
  std::vector<float> result(scores.size());
  const auto last = int64_t(scores.size()) - 1;
  for (int64_t i = 0; i <= last; ++i) {
    const int64_t begin = std::max<int64_t>(0, i - kNeighbours / 2), end = std::min(last, i + kNeighbours / 2);
    float sum = 0;
    for (int64_t j = begin; j <= end; ++j) sum += scores[size_t(j)];
    result[size_t(i)] = sum / float(end - begin + 1);
  }
  return result;
}

// The engine's observer for as long as this lives.
class Observer {
 public:
  Observer(Engine& engine, std::function<void(int, const AttentionRows&)> observe) : engine_(engine) {
    engine_.observe(std::move(observe));
  }
  ~Observer() { engine_.observe({}); }
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

 private:
  Engine& engine_;
};

}  // namespace

BlockPrefill::BlockPrefill(Engine& engine, SelectionOptions options)
    : engine_(engine),
      options_((check(engine, options), std::move(options))),
      attention_(AttentionOptions::from_environment(engine.options().threads)),
      sequence_(engine.cache().create()) {}

BlockPrefill::BlockPrefill(Engine& engine, SelectionOptions options, SequenceId sequence)
    : BlockPrefill(engine, std::move(options)) {
  engine_.cache().remove(std::exchange(sequence_, sequence));
  peak_bytes_ = engine_.cache().size(sequence_).total();
}

BlockPrefill::~BlockPrefill() {
  if (sequence_ >= 0) engine_.cache().remove(sequence_);
}

std::unique_ptr<BlockPrefill> BlockPrefill::fork(SelectionOptions options) const {
  auto copy = std::make_unique<BlockPrefill>(engine_, std::move(options));
  if (copy->options_.method == SelectionMethod::window && options_.method != SelectionMethod::window && !block_.empty())
    throw Error(ErrorCode::invalid_argument, "a window's attention can't be taken of a block that was read before");
  engine_.cache().remove(std::exchange(copy->sequence_, -1));
  copy->sequence_ = engine_.cache().fork(sequence_);
  copy->waiting_ = waiting_;
  copy->block_ = block_;
  copy->queries_ = queries_;
  copy->queries_start_ = queries_start_;
  copy->peak_bytes_ = peak_bytes_;
  return copy;
}

SequenceId BlockPrefill::release() {
  return std::exchange(sequence_, -1);
}

void BlockPrefill::append(std::span<const int32_t> tokens) {
  const size_t block = size_t(options_.block);
  while (!tokens.empty()) {
    const size_t count = std::min(tokens.size(), block - waiting_.size());
    waiting_.insert(waiting_.end(), tokens.begin(), tokens.begin() + int64_t(count));
    tokens = tokens.subspan(count);
    if (waiting_.size() == block) read_block(std::exchange(waiting_, {}));
  }
}

void BlockPrefill::finish() {
  if (!waiting_.empty()) read_block(std::exchange(waiting_, {}));
  select();
}

// One micro-batch at a time; `observe` gets each layer's queries and the position of the first.
void BlockPrefill::decode(SequenceId sequence, std::span<const int32_t> tokens, const ObserveQueries& observe) {
  const size_t step = size_t(engine_.options().micro_batch);
  for (size_t done = 0; done < tokens.size(); done += step) {
    const std::span<const int32_t> piece = tokens.subspan(done, std::min(step, tokens.size() - done));
    const int64_t first = engine_.cache().length(sequence);
    std::unique_ptr<Observer> observer;
    if (observe)
      observer = std::make_unique<Observer>(engine_, [&](int layer, const AttentionRows& rows) {
        if (selects(layer)) observe(layer, rows, first);
      });
    engine_.decode(sequence, piece);
    tokens_read_ += int64_t(piece.size());
    peak_bytes_ = std::max(peak_bytes_, engine_.cache().size(sequence).total());
  }
}

// The block before is selected from only now, so that forks can share what all of them have read.
void BlockPrefill::read_block(std::span<const int32_t> block) {
  select();
  const size_t looking =
      options_.method == SelectionMethod::window ? std::min(block.size(), size_t(options_.window)) : 0;
  const std::span<const int32_t> before = block.first(block.size() - looking);
  if (!before.empty()) decode(sequence_, before, {});
  if (looking > 0) {
    queries_.assign(options_.budgets.size(), {});
    queries_start_ = engine_.cache().length(sequence_);
    decode(sequence_, block.last(looking), [&](int layer, const AttentionRows& rows, int64_t) {
      const LayerGeometry& shape = engine_.cache().geometry().layers[size_t(layer)];
      for (int t = 0; t < rows.tokens; ++t)
        for (int h = 0; h < shape.heads; ++h) {
          const float* q = rows.q.data + t * rows.q.token_stride + h * rows.q.head_stride;
          queries_[size_t(layer)].insert(queries_[size_t(layer)].end(), q, q + shape.key_dim);
        }
    });
  }
  block_.assign(block.begin(), block.end());
}

bool BlockPrefill::selects(int layer) const {
  return engine_.cache().geometry().layers[size_t(layer)].window == 0;
}

bool BlockPrefill::over_budget(int layer) const {
  const Cache& cache = engine_.cache();
  return selects(layer) && cache.held_tokens(sequence_, layer) >
                               cache.geometry().layers[size_t(layer)].kv_heads * options_.budgets[size_t(layer)];
}

bool BlockPrefill::over_budget() const {
  for (int layer = 0; layer < int(options_.budgets.size()); ++layer)
    if (over_budget(layer)) return true;
  return false;
}

AttentionScores BlockPrefill::scores_of(int layer, int head, ScoreReduction reduction) const {
  Cache& cache = engine_.cache();
  return AttentionScores(cache.geometry().layers[size_t(layer)], cache.positions(sequence_, layer, head),
                         cache.rows(sequence_, layer, head, Side::key), reduction);
}

// The prompt reads on from what is cached, in a sequence of its own that goes away with it.
void BlockPrefill::score_prompt() {
  Cache& cache = engine_.cache();
  const std::vector<int32_t> prompt = options_.prompt(block_);
  if (prompt.empty()) throw Error(ErrorCode::invalid_argument, "the prompt to judge tokens by is empty");
  scores_.clear();
  scores_.resize(options_.budgets.size());
  for (size_t layer = 0; layer < scores_.size(); ++layer) {
    if (!over_budget(int(layer))) continue;
    for (int head = 0; head < cache.geometry().layers[layer].kv_heads; ++head)
      scores_[layer].push_back(scores_of(int(layer), head, ScoreReduction::most));
  }
  prompt_tokens_ += int64_t(prompt.size());
  const ScopedSequence reader(cache, cache.fork(sequence_));
  decode(reader.id(), prompt, [&](int layer, const AttentionRows& rows, int64_t first) {
    for (size_t head = 0; head < scores_[size_t(layer)].size(); ++head)
      scores_[size_t(layer)][head].add(rows.q, int(head), rows.tokens, first, attention_);
  });
}

std::vector<float> BlockPrefill::token_scores(int layer, int head) const {
  Cache& cache = engine_.cache();
  const LayerGeometry& shape = cache.geometry().layers[size_t(layer)];
  switch (options_.method) {
    case SelectionMethod::prompt: return scores_[size_t(layer)][size_t(head)].scores();
    case SelectionMethod::window: {
      AttentionScores scores = scores_of(layer, head, ScoreReduction::mean);
      const std::vector<float>& q = queries_[size_t(layer)];
      const int64_t width = int64_t(shape.heads) * shape.key_dim;
      scores.add({q.data(), width, shape.key_dim}, head, int(int64_t(q.size()) / width), queries_start_, attention_);
      return smoothed(scores.scores());
    }
    case SelectionMethod::key_difference:
      return key_difference_scores(cache.rows(sequence_, layer, head, Side::key), shape.key_dim);
    case SelectionMethod::recent: {
      const std::vector<int32_t> positions = cache.positions(sequence_, layer, head);
      return {positions.begin(), positions.end()};
    }
  }
  return {};
}

void BlockPrefill::select() {
  const bool looked = options_.method != SelectionMethod::window || !queries_.empty();
  if (looked && over_budget()) {
    if (options_.method == SelectionMethod::prompt) score_prompt();
    for (int layer = 0; layer < int(options_.budgets.size()); ++layer)
      if (over_budget(layer)) select(layer);
  }
  block_.clear();
  scores_.clear();
  queries_.clear();
}

void BlockPrefill::select(int layer) {
  Cache& cache = engine_.cache();
  const LayerGeometry& shape = cache.geometry().layers[size_t(layer)];
  const int64_t sinks = std::min<int64_t>(cache.options().sink, cache.length(sequence_));
  const int64_t budget = options_.budgets[size_t(layer)] - sinks;
  std::vector<HeadScores> heads;
  for (int head = 0; head < shape.kv_heads; ++head) {
    const std::vector<int32_t> positions = cache.positions(sequence_, layer, head);
    const std::vector<float> scores = token_scores(layer, head);
    heads.push_back({{positions.begin() + sinks, positions.end()}, {scores.begin() + sinks, scores.end()}});
  }
  ChoiceLimits limits;
  limits.budget = shape.kv_heads * budget;
  limits.head_floor = int64_t(options_.head_floor * double(budget));
  limits.recent = int32_t(cache.length(sequence_));
  if (options_.method == SelectionMethod::window) limits.recent = int32_t(queries_start_);
  cache.keep(sequence_, layer, choose_tokens(heads, limits));
}

}  // namespace kvasir
