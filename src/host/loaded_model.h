// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What the host's own files need of a model beyond kvasir/engine.h.
#pragma once

#include <llama-cpp.h>

#include <cstdint>
#include <functional>
#include <string>

#include "kvasir/engine.h"

namespace kvasir {

// Loads a GGUF, and refuses what require_causal_attention refuses. Without weights only metadata and vocabulary are
// read, and contexts allocate nothing.
llama_model_ptr load_llama_model(const std::string& path, bool with_weights,
                                 const std::function<void(float)>& progress);

}  // namespace kvasir
