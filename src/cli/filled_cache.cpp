// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/filled_cache.h"

#include <algorithm>

#include "attention/append.h"
#include "base/parallel.h"
#include "kvasir/error.h"

namespace kvasir::cli {
namespace {

constexpr int kFillTokens = 1024;  // bounds the rows that a long append holds side by side

}  // namespace

void append_rows(Cache& cache, SequenceId sequence, const HeadsView& k, const HeadsView& v, int count, int threads) {
  const int heads = cache.geometry().layers[0].kv_heads;
  SpanAppend append(cache.impl(), 0, {sequence, 0, count});
  for (int head = 0; head < heads; ++head) append.gather(head, k, v);
  parallel_for(heads * append.new_pages(), threads, [&](int i, int) { append.pack(i % heads, i / heads); });
  for (int head = 0; head < heads; ++head) append.settle(head, k, v);
  append.commit();
}

void append_tokens(Cache& cache, SequenceId sequence, const LayerInput& input, int64_t first, int64_t last, int block,
                   int threads) {
  for (; first < last; first += block)
    append_rows(cache, sequence, input.keys(first), input.values(first), int(std::min<int64_t>(block, last - first)),
                threads);
}

FilledCache::FilledCache(const LayerInput& input, const CacheOptions& options, int copies)
    : input_(input), cache_(Geometry{{input.layer}}, options) {
  if (input.batch > 1 && input.block > 1)
    throw Error(ErrorCode::internal, "the bench's sequences append a block each only where there is one of them");
  for (int i = 0; i < copies * input.batch; ++i) {
    sequences_.push_back(cache_.create());
    append_tokens(cache_, sequences_.back(), input, 0, input.past, kFillTokens, 1);
  }
}

std::span<const SequenceId> FilledCache::sequences(int copy) const {
  return std::span(sequences_).subspan(size_t(copy) * size_t(input_.batch), size_t(input_.batch));
}

// A block crosses page boundaries, and what was packed can't be unpacked: it enters a fork. One token can be taken
// back, and then the windows aren't copied, which would warm the processor's caches for them.
void FilledCache::prepare(int copy) {
  spans_.clear();
  for (const SequenceId sequence : sequences(copy))
    spans_.push_back({input_.block > 1 ? cache_.fork(sequence) : sequence, int(spans_.size()), input_.block});
}

void FilledCache::undo(int copy) {
  if (input_.block > 1) {
    for (const SequenceSpan& span : spans_) cache_.remove(span.sequence);
  } else {
    for (const SequenceId sequence : sequences(copy))
      if (cache_.truncate(sequence, input_.past) != input_.past)
        throw Error(ErrorCode::internal, "a decode step over the bench's cache can't be undone");
  }
  spans_.clear();
}

void FilledCache::step(std::span<float> out, const AttentionOptions& options) {
  HeadsView k = input_.keys(input_.past), v = input_.values(input_.past);
  if (input_.batch > 1) k.token_stride = v.token_stride = 0;  // the same token for all
  attend(cache_, 0, input_.queries(0), k, v, spans_, out.data(), options);
}

void FilledCache::append(int threads) {
  for (const SequenceSpan& span : spans_)
    append_rows(cache_, span.sequence, input_.keys(input_.past), input_.values(input_.past), span.count, threads);
}

// Attending is by row what it is by block (kvasir/cache.h: the packed boundary is a function of position), so a row can
// be asked for alone behind what comes before it.
std::vector<float> FilledCache::reference(int sequence, int row, const AttentionOptions& options) {
  AttentionOptions doubles = options;
  doubles.reference = true;
  const int64_t position = input_.past + row;
  const SequenceId twin = cache_.fork(sequences(0)[size_t(sequence)]);
  append_tokens(cache_, twin, input_, input_.past, position, kFillTokens, options.threads);
  std::vector<float> out(size_t(input_.layer.heads) * size_t(input_.layer.value_dim));
  const SequenceSpan span{twin, 0, 1};
  attend(cache_, 0, input_.queries(int64_t(sequence) * input_.block + row), input_.keys(position),
         input_.values(position), {&span, 1}, out.data(), doubles);
  cache_.remove(twin);
  return out;
}

size_t FilledCache::bytes() const {
  size_t sum = 0;
  for (const SequenceId sequence : sequences(0)) sum += cache_.size(sequence).total();
  return sum;
}

}  // namespace kvasir::cli
