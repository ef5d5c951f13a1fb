// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Which models are refused before anything runs, and why.
#pragma once

#include <llama.h>

#include <optional>
#include <string>

namespace kvasir {

// A metadata value as text; nothing if the file doesn't have the key. `{arch}` in `key` stands for the architecture.
std::optional<std::string> metadata(const llama_model* model, std::string key);

// Throws Error unsupported with the architecture's name and the reason: recurrent, hybrid, encoder, diffusion and
// embedding models, multi-head latent attention.
void require_causal_attention(const llama_model* model);

}  // namespace kvasir
