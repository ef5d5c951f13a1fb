// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/self_text.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace kvasir {
namespace {

int32_t sample(const float* logits, int vocab, SplitMix& random) {
  const float most = *std::max_element(logits, logits + vocab);
  double total = 0;
  for (int i = 0; i < vocab; ++i) total += std::exp(double(logits[i] - most));
  double left = random.uniform() * total;
  for (int i = 0; i < vocab; ++i) {
    left -= std::exp(double(logits[i] - most));
    if (left < 0) return i;
  }
  return vocab - 1;
}

int32_t first_token(const Model& model, SplitMix& random) {
  if (model.bos() >= 0) return model.bos();
  return int32_t(random.below(uint64_t(model.vocab_size())));
}

constexpr int kBatch = 16;  // texts that are written at a time

}  // namespace

std::vector<std::vector<int32_t>> write_texts(const std::shared_ptr<Model>& model, int count, int length, uint64_t seed,
                                              int threads, const std::function<void(int64_t, int64_t)>& progress) {
  EngineOptions options;
  options.cache.key = options.cache.value = "f16";
  options.context = length;
  options.micro_batch = std::min(count, kBatch);
  options.threads = threads;
  Engine engine(model, options);
  std::vector<std::vector<int32_t>> texts;
  for (int first = 0; first < count; first += kBatch) {
    const int batch = std::min(kBatch, count - first);
    std::vector<SplitMix> random;
    std::vector<SequenceId> sequences;
    for (int i = 0; i < batch; ++i) {
      random.emplace_back(seed * 0x9e3779b97f4a7c15ull + uint64_t(first + i));
      sequences.push_back(engine.cache().create());
      texts.push_back({first_token(*model, random.back())});
    }
    for (int step = 1; step < length; ++step) {
      std::vector<EngineSpan> spans;
      for (int i = 0; i < batch; ++i)
        spans.push_back({sequences[size_t(i)], std::span(texts[size_t(first + i)]).last(1), true});
      engine.decode(spans, [&](int span, int, const float* logits) {
        SplitMix& source = random[size_t(span)];
        const int32_t token = sample(logits, model->vocab_size(), source);
        texts[size_t(first + span)].push_back(model->is_end(token) ? first_token(*model, source) : token);
      });
      if (progress) progress(int64_t(first) * length + int64_t(step + 1) * batch, int64_t(length) * count);
    }
    for (const SequenceId sequence : sequences) engine.cache().remove(sequence);
  }
  return texts;
}

}  // namespace kvasir
