// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/text_tokens.h"

#include <algorithm>

namespace kvasir {

std::vector<int32_t> tokenize_beginning(const Model& model, const std::string& text, bool parse_special) {
  std::vector<int32_t> tokens = model.tokenize(text, true, parse_special);
  if (tokens.size() > 1 && model.bos() >= 0 && tokens[0] == model.bos() && tokens[1] == model.bos())
    tokens.erase(tokens.begin());
  return tokens;
}

std::vector<int32_t> tokenize_continuation(const Model& model, const std::string& before, const std::string& text,
                                           bool parse_special) {
  const std::vector<int32_t> start = model.tokenize(before, false, parse_special);
  const std::vector<int32_t> whole = model.tokenize(before + text, false, parse_special);
  if (whole.size() > start.size() && std::equal(start.begin(), start.end(), whole.begin()))
    return {whole.begin() + std::ptrdiff_t(start.size()), whole.end()};
  return model.tokenize(text, false, parse_special);  // the border melts into one token
}

}  // namespace kvasir
