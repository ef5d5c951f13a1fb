// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/supported_models.h"

#include <fmt/format.h>

#include "kvasir/error.h"

namespace kvasir {
namespace {

std::string raw_metadata(const llama_model* model, const std::string& key, bool& found) {
  char buffer[256];
  found = llama_model_meta_val_str(model, key.c_str(), buffer, sizeof(buffer)) >= 0;
  return found ? std::string(buffer) : std::string();
}

bool positive(const llama_model* model, const char* key) {
  const std::optional<std::string> value = metadata(model, key);
  return value && *value != "0" && *value != "false";
}

}  // namespace

std::optional<std::string> metadata(const llama_model* model, std::string key) {
  bool found = false;
  constexpr std::string_view kArchitecture = "{arch}";
  if (const size_t at = key.find(kArchitecture); at != std::string::npos) {
    key.replace(at, kArchitecture.size(), raw_metadata(model, "general.architecture", found));
  }
  std::string value = raw_metadata(model, key, found);
  if (!found) return std::nullopt;
  return value;
}

void require_causal_attention(const llama_model* model) {
  const std::string architecture = metadata(model, "general.architecture").value_or("unknown");
  const auto refuse = [&](const char* reason) {
    throw Error(ErrorCode::unsupported, fmt::format("`{}` is {}", architecture, reason));
  };
  if (llama_model_is_recurrent(model)) {
    refuse("a recurrent model: it has no KV cache that could be compressed");
  }
  if (llama_model_is_hybrid(model)) {
    refuse("a hybrid model: some of its layers are recurrent, and this version takes over attention layers only");
  }
  if (llama_model_has_encoder(model)) {
    refuse("an encoder model: its attention isn't causal, so there is no growing KV cache to compress");
  }
  if (llama_model_is_diffusion(model)) {
    refuse("a diffusion model: its attention isn't causal, so there is no growing KV cache to compress");
  }
  const std::optional<std::string> causal = metadata(model, "{arch}.attention.causal");
  if ((causal && *causal == "false") || positive(model, "{arch}.pooling_type")) {
    refuse("an embedding model: it gives vectors, not text; choose a causal language model");
  }
  if (positive(model, "{arch}.attention.kv_lora_rank") && positive(model, "{arch}.attention.key_length_mla")) {
    refuse("a model with multi-head latent attention (MLA), which this version doesn't compress");
  }
}

}  // namespace kvasir
