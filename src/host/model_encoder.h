// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Encoders of episodes that ask a model: the host's own, so that no second one is needed, or any GGUF embedding model.
#pragma once

#include <memory>
#include <string>

#include "episode/encoder.h"
#include "kvasir/engine.h"

namespace kvasir {

inline constexpr int kEncodedTokens = 512;  // of a text, at most; the rest isn't looked at

// The mean of the host model's own last hidden states over a text's tokens. Those of a language model all point into
// much the same direction, so the mean of the learned segments is taken off before vectors are made unit length.
std::unique_ptr<Encoder> make_hidden_state_encoder(const std::shared_ptr<Model>& model, int threads);

// A GGUF embedding model by llama.cpp, pooled as its file says (by the mean where it says nothing), unit length.
// Throws Error: not_found, corrupt, unsupported (a file that llama.cpp can't embed with).
std::unique_ptr<Encoder> load_embedding_encoder(const std::string& path, int threads);

}  // namespace kvasir
