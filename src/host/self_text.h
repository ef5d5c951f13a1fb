// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kvasir/engine.h"

namespace kvasir {

// Texts that the model writes itself, sampled at temperature 1 from its whole distribution, in batches of up to 16:
// what it is calibrated on where nobody gives it a text. Each starts with the token that begins texts, or a random one
// where the model has none, and is `length` tokens long; an end of generation is followed by a fresh start.
// Deterministic for one machine and seed.
std::vector<std::vector<int32_t>> write_texts(const std::shared_ptr<Model>& model, int count, int length, uint64_t seed,
                                              int threads, const std::function<void(int64_t, int64_t)>& progress);

}  // namespace kvasir
