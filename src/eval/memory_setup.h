// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What an episodic memory is made of, by name: an encoder, and budgets of layers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "episode/encoder.h"
#include "host/layer_profile.h"

namespace kvasir {

// `name`: words, hidden (the model's own states), or a GGUF embedding model's path. Throws what the encoder throws.
std::unique_ptr<Encoder> make_encoder(const std::string& name, const std::shared_ptr<Model>& model, int threads);

// The model's profile: the one that is kept, or a new one on the project's own document, which is kept from then on.
LayerProfile model_profile(const std::shared_ptr<Model>& model, int threads,
                           const std::function<void(const std::string&)>& note,
                           const std::function<void(int64_t done, int64_t total)>& progress);

// Tokens between two selections where none are asked for (0): as the budget, 128 to 1,024.
int selection_block(int block, int64_t budget);

}  // namespace kvasir
