// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The --kv of the benchmarks: several configurations at once.
#pragma once

#include <string>
#include <vector>

#include "kvasir/cache.h"

namespace kvasir::cli {

struct NamedOptions {
  std::string name;  // as asked for
  CacheOptions options;
};

// `A,B,...`, each a codec for both sides or `K/V`; everything but the codecs comes from `base`. Where other commands
// read K,V these read a list, so a pair is written with a slash.
// Throws Error invalid_argument, for unknown names too.
std::vector<NamedOptions> parse_codec_list(const std::string& text, const CacheOptions& base);

// --native of the benchmarks: llama.cpp's own cache types, none of them where it says `none`.
// Throws Error invalid_argument for a type that is named twice; whether it exists, llama.cpp says.
std::vector<std::string> native_list(const std::vector<std::string>& names);

}  // namespace kvasir::cli
