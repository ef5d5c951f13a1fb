// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/text_chunks.h"

#include <fmt/format.h>
#include <llama.h>

#include "kvasir/error.h"

namespace kvasir {

std::vector<std::vector<int32_t>> cut_chunks(const Model& model, const std::string& text, int64_t tokens, int most) {
  if (tokens < 4)
    throw Error(ErrorCode::invalid_argument, fmt::format("a window needs 4 tokens or more, -c is {}", tokens));
  const std::vector<int32_t> all = model.tokenize(text, true, false);
  const int64_t whole = int64_t(all.size()) / tokens;
  if (whole == 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the text has {} tokens, less than one window of {}; give a longer text or a smaller -c",
                            all.size(), tokens));
  const bool starts_with_bos = llama_vocab_get_add_bos(model.vocab()) && model.bos() >= 0;
  const int64_t count = most > 0 && most < whole ? most : whole;
  std::vector<std::vector<int32_t>> chunks;
  for (int64_t i = 0; i < count; ++i) {
    chunks.emplace_back(all.begin() + i * tokens, all.begin() + (i + 1) * tokens);
    if (starts_with_bos) chunks.back()[0] = model.bos();
  }
  return chunks;
}

}  // namespace kvasir
