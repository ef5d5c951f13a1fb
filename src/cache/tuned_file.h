// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What `kvasir tune` writes and `--kv @FILE` reads: codecs by layer and side, and the model they were measured on. The
// rest of the file is for people.
#pragma once

#include <string>

#include "kvasir/cache.h"

namespace kvasir {

inline constexpr const char* kTunedFormat = "kvasir tune 1";

// Sets key, value, overrides, `tuned` and `tuned_for` of `options` from the JSON object
//   {"format": "kvasir tune 1", "model": fingerprint, "kv": "K,V", "kv_layers": "0-4:K,V;5-9:K,V"}
// Throws Error: not_found, io, corrupt (not such an object), and what parse_kv and parse_kv_layers throw.
void read_tuned_file(const std::string& path, CacheOptions& options);

}  // namespace kvasir
