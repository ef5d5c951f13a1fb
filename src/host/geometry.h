// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The dry pass: what a loaded model's attention looks like, read from its graph while it runs on a few tokens, and
// the proof that llama.cpp lays out cells and masks as the engine relies on.
#pragma once

#include <llama.h>

#include "kvasir/cache.h"

namespace kvasir {

struct DryPassResult {
  Geometry geometry;
  // LongRoPE: llama.cpp picks one of two sets of RoPE factors by its own n_ctx, which under Kvasir is the micro-batch.
  bool rope_depends_on_context = false;
};

// Three small decodes in a context of 256 cells:
// 1. Tokens of three sequences at unrelated positions: each layer's node appears once, and its mask shows that the
//    first cells are the batch in order, seen causally and by their own sequence only.
// 2. For a model with a sliding window of n: keys at positions 0, 1 and n - 1, then
// 3. a query at n: a layer that sees all is full, one that misses exactly position 0 has the window n.
// Throws Error unsupported where any of this isn't so.
DryPassResult dry_pass(llama_model* model);

}  // namespace kvasir
