// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <ggml.h>
#include <llama-cpp.h>

#include <optional>
#include <vector>

#include "host/attention_node.h"
#include "host/llama_log.h"
#include "host/loaded_model.h"
#include "host/plan_geometry.h"
#include "kvasir/error.h"

// llama.cpp's staging interface (src/llama-ext.h), which its installation leaves out: builds the graph of a batch and
// returns it. Valid until the next call.
LLAMA_API ggml_cgraph* llama_graph_reserve(llama_context* context, uint32_t n_tokens, uint32_t n_seqs,
                                           uint32_t n_outputs);

namespace kvasir {
namespace {

constexpr int kBatch = 16;
constexpr int kCellStep = 256;  // llama.cpp pads caches to this

}  // namespace

Geometry geometry_from_gguf(const std::string& path) {
  const llama_model_ptr model = load_llama_model(path, false, {});
  const int window = llama_model_n_swa(model.get());
  llama_context_params params = llama_context_default_params();
  // A windowed layer's cache holds the window and a batch, padded; the context is one step larger.
  params.n_ctx = uint32_t((window + kBatch + kCellStep - 1) / kCellStep * kCellStep + kCellStep);
  params.n_batch = params.n_ubatch = kBatch;
  params.n_seq_max = 1;
  params.kv_unified = true;
  params.swa_full = false;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
  params.no_perf = true;
  clear_llama_error();
  const llama_context_ptr context{llama_init_from_model(model.get(), params)};
  if (!context)
    throw Error(ErrorCode::unsupported, "llama.cpp can't run this model with flash attention: " + llama_error());
  if (llama_get_memory(context.get()) == nullptr) {
    throw Error(ErrorCode::unsupported, "this model keeps no KV cache (an embedding or diffusion model)");
  }
  ggml_cgraph* graph = llama_graph_reserve(context.get(), kBatch, 1, 1);
  if (graph == nullptr)
    throw Error(ErrorCode::unsupported, "llama.cpp can't build the model's graph: " + llama_error());

  std::vector<std::optional<LayerGeometry>> layers(size_t(llama_model_n_layer(model.get())));
  for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
    ggml_tensor* tensor = ggml_graph_node(graph, i);
    if (!is_attention_node(tensor)) continue;
    const AttentionNode node = read_attention_node(tensor);
    if (size_t(node.layer) >= layers.size() || layers[size_t(node.layer)]) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("layer {} of this model attends twice or isn't its own", node.layer));
    }
    layers[size_t(node.layer)] = node.geometry;
    if (window > 0 && node.root_cells < int64_t(llama_n_ctx(context.get())))
      layers[size_t(node.layer)]->window = window;
  }

  Geometry geometry;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!layers[i]) throw Error(ErrorCode::unsupported, fmt::format("layer {} of this model has no attention node", i));
    geometry.layers.push_back(*layers[i]);
  }
  return geometry;
}

}  // namespace kvasir
