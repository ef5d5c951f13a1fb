// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The flags that choose the cache, the same for every command.
#pragma once

#include <string>

#include "kvasir/cache.h"

namespace CLI {
class App;
}

namespace kvasir::cli {

struct CacheFlags {
  std::string kv = "auto";     // --kv; @FILE of kvasir tune
  std::string type_k, type_v;  // -ctk, -ctv: one side of --kv
  std::string layers;          // --kv-layers
  std::string budget;          // --kv-budget
  std::string calibration;     // --calibration
  std::string rotations;       // --rotations
  int sink = CacheOptions().sink, recent = CacheOptions().recent;
  bool no_protect = false, no_calibration = false;

  // --kv with -ctk and -ctv worked in: "K" or "K,V", or "@FILE".
  std::string kv_text() const;
};

void add_cache_flags(CLI::App& command, CacheFlags& flags);

// Everything but the codecs of --kv: windows, overrides, budget, protection.
CacheOptions cache_options_without_codecs(const CacheFlags& flags);
// All of it. Throws Error invalid_argument, for unknown codec names too.
CacheOptions cache_options(const CacheFlags& flags);

// "300", "64K", "1.5M", "2G" (powers of 1024) in bytes. Throws Error invalid_argument that names `flag`.
size_t parse_bytes(const std::string& text, const std::string& flag);

// Runs `parse` and turns whatever Error it throws into invalid_argument: on the command line an unknown name is a wrong
// argument.
template <typename Parse>
auto as_argument(Parse parse);

}  // namespace kvasir::cli

#include "kvasir/error.h"

template <typename Parse>
auto kvasir::cli::as_argument(Parse parse) {
  try {
    return parse();
  } catch (const Error& error) {
    throw Error(ErrorCode::invalid_argument, error.what());
  }
}
