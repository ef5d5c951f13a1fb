// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// How much each layer minds when its past is cut into blocks: what layer budgets are made of (select/layer_budgets.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kvasir/engine.h"

namespace kvasir {

struct LayerProfile {
  std::string model;   // fingerprint
  std::string text;    // name, for the record
  int64_t tokens = 0;  // that were compared
  int block = 0, sink = 0;
  // Mean over tokens and KV heads of the cosine between the key with the whole past and with the past cut into blocks
  // (EpiCache, arXiv 2509.17396 Eq. 8). 1 for layers with a sliding window, which selection leaves alone.
  std::vector<double> similarity;

  bool operator==(const LayerProfile&) const = default;
};

struct ProfileOptions {
  int64_t tokens = 4096;  // at most
  // A token of the cut pass sees the sinks, its own block and the second half of the block before.
  int block = 1024;
  int sink = 16;
  int micro_batch = 512;
  int threads = 2;
  std::string text_name;
  std::function<void(int64_t done, int64_t total)> progress;
};

// Two passes side by side over the beginning of `tokens`. Throws Error invalid_argument (no more tokens than a block,
// or numbers below 1), and what Engine throws.
LayerProfile profile_layers(const std::shared_ptr<Model>& model, std::span<const int32_t> tokens,
                            const ProfileOptions& options);

// Tokens per KV head for each layer of the model, `budget` on average over the layers that selection works on; the
// others get as much, which nobody reads. Throws Error invalid_argument (a profile of another model), and what
// layer_budgets throws.
std::vector<int64_t> profiled_budgets(const Model& model, const LayerProfile& profile, int64_t budget, double alpha);
std::vector<int64_t> uniform_budgets(const Model& model, int64_t budget);

// JSON. Throws Error not_found, io, corrupt.
void save_profile(const LayerProfile& profile, const std::string& path);
LayerProfile load_profile(const std::string& path);
// Where the profile of a model is kept, in the cache folder. Throws Error not_found as cache_folder does.
std::string kept_profile(const std::string& fingerprint);

}  // namespace kvasir
