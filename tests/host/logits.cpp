// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/host/logits.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace kvasir::test {
namespace {

double log_sum_exp(const std::vector<float>& row) {
  const double top = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float x : row) sum += std::exp(double(x) - top);
  return top + std::log(sum);
}

}  // namespace

std::vector<int32_t> random_tokens(int count, int vocabulary, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& token : tokens) token = int32_t(random() % uint64_t(vocabulary));
  return tokens;
}

EngineOptions plain_options(int64_t context, int micro_batch, const std::string& codec) {
  EngineOptions options;
  options.cache.key = options.cache.value = codec;
  options.context = context;
  options.micro_batch = micro_batch;
  options.threads = 1;
  return options;
}

Logits native_logits(std::shared_ptr<Model> model, std::span<const int32_t> tokens, int prompt, int micro_batch) {
  const size_t width = size_t(model->vocab_size());
  NativeEngine native(std::move(model), "f16", "f16", int64_t(tokens.size()), micro_batch, 1);
  Logits logits;
  const auto keep = [&](int, int, const float* row) { logits.emplace_back(row, row + width); };
  native.decode(tokens.first(size_t(prompt)), true, keep);
  for (size_t i = size_t(prompt); i < tokens.size(); ++i) native.decode(tokens.subspan(i, 1), true, keep);
  return logits;
}

Logits engine_logits(Engine& engine, SequenceId sequence, std::span<const int32_t> tokens, int prompt) {
  const size_t width = size_t(engine.model().vocab_size());
  Logits logits;
  const EngineSpan span{sequence, tokens.first(size_t(prompt)), true};
  engine.decode({&span, 1}, [&](int, int, const float* row) { logits.emplace_back(row, row + width); });
  for (size_t i = size_t(prompt); i < tokens.size(); ++i) {
    const std::span<const float> row = engine.decode(sequence, tokens.subspan(i, 1));
    logits.emplace_back(row.begin(), row.end());
  }
  return logits;
}

Distance distance(const Logits& a, const Logits& b) {
  Distance result;
  double squares = 0, entries = 0;
  for (size_t t = 0; t < b.size(); ++t) {
    const double norm_a = log_sum_exp(a[t]), norm_b = log_sum_exp(b[t]);
    for (size_t i = 0; i < b[t].size(); ++i) {
      squares += double(b[t][i]) * b[t][i];
      entries += 1;
      const double error = std::abs(double(a[t][i]) - b[t][i]);
      if (!(error <= result.error)) {  // a NaN counts as worst
        result.error = error;
        result.worst_token = t;
        result.worst_entry = i;
      }
      const double log_b = b[t][i] - norm_b;
      result.divergence += std::exp(log_b) * (log_b - (a[t][i] - norm_a));
    }
    result.top1 += std::max_element(a[t].begin(), a[t].end()) - a[t].begin() ==
                   std::max_element(b[t].begin(), b[t].end()) - b[t].begin();
  }
  result.error /= std::sqrt(squares / entries);
  result.divergence /= double(b.size());
  result.top1 /= double(b.size());
  return result;
}

}  // namespace kvasir::test
