// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The configuration that is really used, for the log at start and for every JSON result, and what the cache's
// protections met.
#pragma once

#include "cli/terminal.h"
#include "kvasir/cache.h"

namespace kvasir::cli {

// Codecs by layer, windows, bits, budget: a few lines on stderr.
void note_cache(const Cache& cache, int64_t context, int threads);

// One line for each run of layers whose keys carry an offset of more than four times their spread.
void note_key_offsets(const Cache& cache);

// {"codec_k", "codec_v", "bits_per_value", "bytes", "bytes_f16", "ratio", "bytes_pages", "bytes_mapped",
// "bytes_windows"} of what the pool has handed out, and sessions' files hold mapped, now.
Json kv_json(const Cache& cache);

// Everything that changes a result: codecs by layer, windows, protection, overrides, kernels, threads.
Json effective_json(const Cache& cache, int64_t context, int micro_batch, int threads);

// One entry a layer: codecs, bits of each side's pages, key offset.
Json layers_json(const Cache& cache);

}  // namespace kvasir::cli
