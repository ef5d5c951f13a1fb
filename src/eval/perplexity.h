// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// `eval ppl`: perplexity through the cache, with the protocol of llama-perplexity (windows of -c tokens that don't
// overlap, the second half scored), and against a base cache over the same tokens, so that the error of the ratio is
// that of paired terms.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "eval/eval_setup.h"

namespace kvasir {

struct PerplexityOptions {
  EvalSetup setup;                 // context: tokens of a window
  std::string text;                // what is read
  int chunks = 0;                  // windows; 0: all
  std::optional<SourceSpec> base;  // none: the cache under test alone
  // The scored half goes in token by token, as in generation, instead of micro-batch by micro-batch.
  bool step = false;
};

// {"ppl", "ppl_se", "tokens", "chunks", "bits_per_value", "bytes", "bytes_f16", "nonfinite"} and, with a base,
// {"ppl_base", "ppl_base_se", "ln_ppl_ratio" {"mean", "se"}, "kld" {"mean", "se"}, "top1"}.
// Throws Error: what cut_chunks and make_source throw.
nlohmann::json run_perplexity(const PerplexityOptions& options);

}  // namespace kvasir
