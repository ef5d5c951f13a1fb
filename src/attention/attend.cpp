// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <set>
#include <string>

#include "attention/append.h"
#include "attention/kernels.h"
#include "attention/partial.h"
#include "base/parallel.h"
#include "kvasir/attention.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

// A slice holds this many pages at most when few rows read a long past: the unit of work that threads share. Fixed,
// so that results don't depend on the number of threads.
constexpr int kSlicePages = 16;
constexpr int kTileRows = 128;  // rows of one task when many rows read the past

// Queries of one KV head in one aligned block, with the slices of the past that are read apart and then merged.
struct Task {
  HeadView view;
  QueryBlock block;
  QueryRows queries;  // where there are several slices
  std::vector<Slice> slices;
  std::vector<Partial> parts;  // one a slice, or more that an earlier step left
};

// Tasks of the steps of one thread: the vectors in them are large enough from the second step on.
class TaskList {
 public:
  static TaskList& of_this_thread() {
    static thread_local TaskList list;
    list.count_ = 0;
    return list;
  }
  Task& add() {
    if (count_ == tasks_.size()) tasks_.emplace_back();
    return tasks_[count_++];
  }
  int count() const { return int(count_); }
  Task& operator[](int i) { return tasks_[size_t(i)]; }

 private:
  std::vector<Task> tasks_;
  size_t count_ = 0;
};

class LayerStep {
 public:
  LayerStep(Cache& cache, int layer, const HeadsView& q, const HeadsView& k, const HeadsView& v,
            std::span<const SequenceSpan> spans, float* out, const AttentionOptions& options)
      : geometry_(cache.geometry().layers.at(size_t(layer))), q_(q), k_(k), v_(v), out_(out), options_(options) {
    std::set<SequenceId> seen;
    for (const SequenceSpan& span : spans) {
      if (span.count <= 0) continue;
      if (!seen.insert(span.sequence).second)
        throw Error(ErrorCode::invalid_argument, "sequence " + std::to_string(span.sequence) + " appears in two spans");
      appends_.push_back(std::make_unique<SpanAppend>(cache.impl(), layer, span));
    }
  }

  void run() {
    const int heads = geometry_.kv_heads;
    const auto each_head = [&](auto step) {
      for (auto& append : appends_)
        for (int head = 0; head < heads; ++head) ((*append).*step)(head, k_, v_);
    };
    each_head(&SpanAppend::gather);
    pack();
    each_head(&SpanAppend::settle);
    plan();
    attend();
    for (auto& append : appends_) append->commit();
  }

 private:
  void pack() {
    struct Item {
      SpanAppend* append;
      int head, page;
    };
    std::vector<Item> items;
    for (auto& append : appends_)
      for (int page = 0; page < append->new_pages(); ++page)
        for (int head = 0; head < geometry_.kv_heads; ++head) items.push_back({append.get(), head, page});
    parallel_for(int(items.size()), options_.threads,
                 [&](int i, int) { items[size_t(i)].append->pack(items[size_t(i)].head, items[size_t(i)].page); });
  }

  void plan() {
    for (auto& append : appends_)
      for (int64_t position = append->start(); position < append->end();) {
        const int64_t block = position / kPageTokens * kPageTokens;
        const int64_t block_end = std::min(append->end(), block + kPageTokens);
        const int64_t step = std::max(1, kTileRows / geometry_.group());
        const int64_t end = std::min(block_end, position + step);
        for (int head = 0; head < geometry_.kv_heads; ++head) add_task(*append, head, block, position, end);
        position = end;
      }
  }

  void add_task(const SpanAppend& append, int head, int64_t block, int64_t position, int64_t end) {
    Task& task = tasks_.add();
    task.view = append.view(head, block);
    const int64_t row = append.span().first + position - append.start();
    const int group = geometry_.group();
    task.block.q = q_.data + row * q_.token_stride + head * group * q_.head_stride;
    task.block.token_stride = q_.token_stride;
    task.block.head_stride = q_.head_stride;
    task.block.position = position;
    task.block.tokens = int(end - position);
    task.block.out_token_stride = int64_t(geometry_.heads) * geometry_.value_dim;
    task.block.out = out_ + row * task.block.out_token_stride + int64_t(head) * group * geometry_.value_dim;
    const int pages = task.view.all_pages();
    const int slice_pages = task.block.tokens == 1 ? kSlicePages : std::max(1, pages);
    task.slices.clear();
    for (int first = 0; first == 0 || first < pages; first += slice_pages) {
      const int last = std::min(pages, first + slice_pages);
      task.slices.push_back({first == 0, last == pages, first, last});
    }
    task.parts.resize(std::max(task.parts.size(), task.slices.size()));
  }

  void attend() {
    if (options_.reference) {
      parallel_for(tasks_.count(), options_.threads,
                   [&](int i, int) { attend_reference(tasks_[i].view, tasks_[i].block); });
      return;
    }
    const Kernels& kernels = kernels_for(options_.simd);
    std::vector<Task*> sliced;
    for (int t = 0; t < tasks_.count(); ++t)
      if (tasks_[t].slices.size() > 1) sliced.push_back(&tasks_[t]);
    if (!sliced.empty())
      parallel_for(int(sliced.size()), options_.threads, [&](int i, int) {
        sliced[size_t(i)]->queries.read(kernels, sliced[size_t(i)]->view, sliced[size_t(i)]->block);
      });
    std::vector<std::pair<int, int>> items;  // (task, slice); the last block of a chunk has most to read: it goes first
    for (int t = tasks_.count(); t-- > 0;)
      for (int s = 0; s < int(tasks_[t].slices.size()); ++s) items.emplace_back(t, s);
    parallel_for(int(items.size()), options_.threads, [&](int i, int) {
      Task& task = tasks_[items[size_t(i)].first];
      const size_t slice = size_t(items[size_t(i)].second);
      const QueryRows& queries = task.slices.size() > 1 ? task.queries : own_queries(kernels, task);
      attend_slice(kernels, task.view, task.block, queries, task.slices[slice], task.parts[slice]);
      if (task.slices.size() == 1) finish(kernels, task.view, task.block, task.parts.data(), 1, 0, task.parts[0].rows);
    });
    merge(kernels);
  }

  // Of the thread that reads the only slice: many rows of many tasks would be much memory.
  static const QueryRows& own_queries(const Kernels& kernels, const Task& task) {
    static thread_local QueryRows queries;
    queries.read(kernels, task.view, task.block);
    return queries;
  }

  // A long past has as many parts as a short one has tokens, so rows are shared out too.
  void merge(const Kernels& kernels) {
    std::vector<std::pair<int, int>> rows;  // (task, row)
    for (int t = 0; t < tasks_.count(); ++t)
      for (int row = 0; tasks_[t].slices.size() > 1 && row < tasks_[t].parts[0].rows; ++row) rows.emplace_back(t, row);
    parallel_for(int(rows.size()), options_.threads, [&](int i, int) {
      const auto [t, row] = rows[size_t(i)];
      const Task& task = tasks_[t];
      finish(kernels, task.view, task.block, task.parts.data(), int(task.slices.size()), row, row + 1);
    });
  }

  const LayerGeometry& geometry_;
  const HeadsView &q_, &k_, &v_;
  float* out_;
  const AttentionOptions& options_;
  std::vector<std::unique_ptr<SpanAppend>> appends_;
  TaskList& tasks_ = TaskList::of_this_thread();
};

}  // namespace

void attend(Cache& cache, int layer, const HeadsView& q, const HeadsView& k, const HeadsView& v,
            std::span<const SequenceSpan> spans, float* out, const AttentionOptions& options) {
  if (layer < 0 || layer >= int(cache.geometry().layers.size()))
    throw Error(ErrorCode::invalid_argument, "no layer " + std::to_string(layer) + " in this cache");
  LayerStep(cache, layer, q, k, v, spans, out, options).run();
}

}  // namespace kvasir
