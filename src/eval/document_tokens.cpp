// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/document_tokens.h"

#include <utility>

namespace kvasir {
namespace {

TokenizedDocument tokenized(const Model& model, uint64_t seed, int days) {
  TokenizedDocument result{write_document(seed, days), {}};
  result.tokens = model.tokenize(result.document.text, true, false);
  return result;
}

}  // namespace

TokenizedDocument tokenize_document(const Model& model, uint64_t seed, int64_t count) {
  constexpr int kTokensPerDay = 100;  // a guess that only saves work
  int days = int(count / kTokensPerDay) + 1;
  while (int64_t(tokenized(model, seed, days).tokens.size()) < count) days *= 2;
  int enough = days, few = 0;
  while (enough - few > 1) {
    const int middle = few + (enough - few) / 2;
    (int64_t(tokenized(model, seed, middle).tokens.size()) >= count ? enough : few) = middle;
  }
  return tokenized(model, seed, enough);
}

}  // namespace kvasir
