// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvasir/codec.h"
#include "kvasir/error.h"

namespace kvasir {

// Applies `option=value:option=value` as documented at make_codec to a codec fresh from the table, and adds what
// changed to its name. Throws Error invalid_argument.
void apply_codec_options(std::string_view text, Codec& codec);

// The value that one of the words stands for. Throws Error invalid_argument with the words that there are; `codec` and
// `option` are for the message.
template <class T>
T choose_word(const std::string& codec, std::string_view option, std::string_view word,
              const std::vector<std::pair<std::string_view, T>>& choices) {
  std::string known;
  for (const auto& [name, value] : choices) {
    if (name == word) return value;
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  throw Error(ErrorCode::invalid_argument,
              "codec " + codec + ": " + std::string(option) + " takes " + known + "; got '" + std::string(word) + "'");
}

}  // namespace kvasir
