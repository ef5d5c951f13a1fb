// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/memory_setup.h"

#include <algorithm>
#include <filesystem>

#include "episode/word_encoder.h"
#include "eval/document.h"
#include "host/model_encoder.h"

namespace kvasir {
namespace {

constexpr int kProfileDays = 60;  // of the project's document: some 8,000 tokens

}  // namespace

std::unique_ptr<Encoder> make_encoder(const std::string& name, const std::shared_ptr<Model>& model, int threads) {
  if (name == "words") return std::make_unique<WordEncoder>();
  if (name == "hidden") return make_hidden_state_encoder(model, threads);
  return load_embedding_encoder(name, threads);
}

LayerProfile model_profile(const std::shared_ptr<Model>& model, int threads,
                           const std::function<void(const std::string&)>& note,
                           const std::function<void(int64_t, int64_t)>& progress) {
  const std::string path = kept_profile(model->fingerprint());
  if (std::filesystem::exists(path)) return load_profile(path);
  if (note) note("profiling the model's layers, once (--alpha 0: leave it out)");
  ProfileOptions options;
  options.threads = threads;
  options.text_name = "the project's own document";
  options.progress = progress;
  const std::vector<int32_t> tokens = model->tokenize(write_document(1, kProfileDays).text, true, false);
  const LayerProfile made = profile_layers(model, tokens, options);
  save_profile(made, path);
  return made;
}

int selection_block(int block, int64_t budget) {
  return block > 0 ? block : int(std::clamp<int64_t>(budget, 128, 1024));
}

}  // namespace kvasir
