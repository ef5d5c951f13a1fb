// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/attention_node.h"

#include <fmt/format.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "kvasir/error.h"

namespace kvasir {
namespace {

[[noreturn]] void refuse(const std::string& reason) {
  throw Error(ErrorCode::unsupported, "this model's attention can't be taken over: " + reason);
}

const ggml_tensor* root_of(const ggml_tensor* tensor) {
  while (tensor->view_src != nullptr) tensor = tensor->view_src;
  return tensor;
}

// The layer of `cache_k_l<layer>`, or -1.
int layer_of(const ggml_tensor* root, std::string_view prefix) {
  const std::string_view name = root->name;
  if (!name.starts_with(prefix)) return -1;
  int layer = -1;
  const auto [end, error] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), layer);
  return error == std::errc() && end == name.data() + name.size() ? layer : -1;
}

bool on_host(const ggml_tensor* tensor) {
  const ggml_tensor* root = root_of(tensor);
  return root->buffer == nullptr || ggml_backend_buffer_is_host(root->buffer);
}

}  // namespace

bool is_attention_node(const ggml_tensor* tensor) {
  return tensor->op == GGML_OP_FLASH_ATTN_EXT;
}

AttentionNode read_attention_node(ggml_tensor* tensor) {
  AttentionNode node;
  node.result = tensor;
  node.q = tensor->src[0];
  node.k = tensor->src[1];
  node.v = tensor->src[2];
  node.mask = tensor->src[3];
  node.sinks = tensor->src[4];
  if (node.q == nullptr || node.k == nullptr || node.v == nullptr) refuse("the attention node lacks q, k or v");
  if (node.mask == nullptr) refuse("attention runs without a mask, so it isn't causal");

  node.k_root = root_of(node.k);
  node.v_root = root_of(node.v);
  node.layer = layer_of(node.k_root, "cache_k_l");
  if (node.layer < 0) {
    refuse(fmt::format("its keys come from `{}`, not from a layer's key cache", node.k_root->name));
  }
  if (layer_of(node.v_root, "cache_v_l") != node.layer) {
    refuse(
        fmt::format("layer {} takes its values from `{}`, not from its own value cache (multi-head latent attention "
                    "and shared layers do this)",
                    node.layer, node.v_root->name));
  }

  LayerGeometry& geometry = node.geometry;
  node.tokens = node.q->ne[1];
  node.cells = node.k->ne[1];
  node.root_cells = node.k_root->ne[1];
  geometry.heads = int(node.q->ne[2]);
  geometry.kv_heads = int(node.k->ne[2]);
  geometry.key_dim = int(node.q->ne[0]);
  geometry.value_dim = int(node.v->ne[0]);
  float params[3];
  std::memcpy(params, tensor->op_params, sizeof(params));
  geometry.scale = params[0];
  geometry.softcap = params[2];

  if (params[1] != 0.0f) refuse(fmt::format("layer {} uses ALiBi position biases", node.layer));
  if (node.q->ne[3] != 1 || node.k->ne[3] != 1 || node.v->ne[3] != 1) {
    refuse(fmt::format("layer {} splits its cache into several streams", node.layer));
  }
  if (node.k->ne[0] != node.q->ne[0] || node.v->ne[1] != node.cells || node.v->ne[2] != node.k->ne[2] ||
      node.v_root->ne[1] != node.root_cells || geometry.kv_heads <= 0 || geometry.heads % geometry.kv_heads != 0) {
    refuse(fmt::format("layer {} has q [{}, {}, {}], k [{}, {}, {}] and v [{}, {}, {}], which don't fit together",
                       node.layer, node.tokens, geometry.heads, geometry.key_dim, node.cells, geometry.kv_heads,
                       node.k->ne[0], node.v->ne[1], node.v->ne[2], geometry.value_dim));
  }
  if (node.q->type != GGML_TYPE_F32 || node.q->nb[0] != sizeof(float) || tensor->type != GGML_TYPE_F32 ||
      !ggml_is_contiguous(tensor)) {
    refuse(fmt::format("layer {} computes attention in {} -> {}, not in f32", node.layer, ggml_type_name(node.q->type),
                       ggml_type_name(tensor->type)));
  }
  if (tensor->ne[0] != geometry.value_dim || tensor->ne[1] != geometry.heads || tensor->ne[2] != node.tokens) {
    refuse(fmt::format("layer {} has an attention result of shape [{}, {}, {}]", node.layer, tensor->ne[2],
                       tensor->ne[1], tensor->ne[0]));
  }
  if (node.mask->type != GGML_TYPE_F16 || node.mask->ne[0] != node.cells || node.mask->ne[1] < node.tokens ||
      node.mask->ne[2] != 1 || node.mask->ne[3] != 1) {
    refuse(fmt::format("layer {} has a mask of its own for each head", node.layer));
  }
  if (node.sinks != nullptr && (node.sinks->type != GGML_TYPE_F32 || node.sinks->ne[0] != geometry.heads)) {
    refuse(fmt::format("layer {} has {} sink logits for {} heads", node.layer, node.sinks->ne[0], geometry.heads));
  }
  return node;
}

void require_half_cache(const AttentionNode& node) {
  for (const ggml_tensor* side : {node.k, node.v}) {
    if (side->type != GGML_TYPE_F16 || side->nb[0] != sizeof(ggml_fp16_t)) {
      refuse(fmt::format("layer {} hands over its keys and values as {}, not as f16 rows", node.layer,
                         ggml_type_name(side->type)));
    }
  }
}

std::vector<float> read_sinks(const AttentionNode& node) {
  if (node.sinks == nullptr) return {};
  std::vector<float> sinks(size_t(node.geometry.heads));
  ggml_backend_tensor_get(node.sinks, sinks.data(), 0, sinks.size() * sizeof(float));
  return sinks;
}

std::vector<bool> read_mask_row(const AttentionNode& node, int64_t row, int64_t count) {
  std::vector<ggml_fp16_t> halves(static_cast<size_t>(count));
  ggml_backend_tensor_get(node.mask, halves.data(), size_t(row) * node.mask->nb[1],
                          halves.size() * sizeof(ggml_fp16_t));
  std::vector<bool> seen(halves.size());
  for (size_t i = 0; i < halves.size(); ++i) {
    const float value = ggml_fp16_to_fp32(halves[i]);
    if (value != 0.0f && value != -std::numeric_limits<float>::infinity()) {
      refuse(fmt::format("layer {} adds {} to a score through its mask", node.layer, value));
    }
    seen[i] = value == 0.0f;
  }
  return seen;
}

HeadsView NodeBuffers::q(const AttentionNode& node) {
  const ggml_tensor* q = node.q;
  HeadsView view;
  view.token_stride = int64_t(q->nb[1] / sizeof(float));
  view.head_stride = int64_t(q->nb[2] / sizeof(float));
  if (on_host(q)) {
    view.data = static_cast<const float*>(q->data);
  } else {
    q_.resize(ggml_nbytes(q) / sizeof(float));
    ggml_backend_tensor_get(q, q_.data(), 0, ggml_nbytes(q));
    view.data = q_.data();
  }
  return view;
}

HeadsView NodeBuffers::widen(const ggml_tensor* cells, int64_t tokens, std::vector<float>& floats) {
  const int64_t dim = cells->ne[0], heads = cells->ne[2];
  const size_t bytes =
      size_t(tokens - 1) * cells->nb[1] + size_t(heads - 1) * cells->nb[2] + size_t(dim) * cells->nb[0];
  const std::byte* source = static_cast<const std::byte*>(cells->data);
  if (!on_host(cells)) {
    staging_.resize(bytes);
    ggml_backend_tensor_get(cells, staging_.data(), 0, bytes);
    source = staging_.data();
  }
  floats.resize(size_t(tokens * heads * dim));
  // Heads usually lie side by side in a cell's row; then one call converts the row, or all rows.
  const bool rows = cells->nb[2] == size_t(dim) * sizeof(ggml_fp16_t);
  if (rows && cells->nb[1] == size_t(heads) * cells->nb[2]) {
    ggml_cpu_fp16_to_fp32(reinterpret_cast<const ggml_fp16_t*>(source), floats.data(), tokens * heads * dim);
  } else {
    for (int64_t token = 0; token < tokens; ++token) {
      for (int64_t head = 0; head < heads; ++head) {
        const std::byte* row = source + size_t(token) * cells->nb[1] + size_t(head) * cells->nb[2];
        ggml_cpu_fp16_to_fp32(reinterpret_cast<const ggml_fp16_t*>(row), floats.data() + (token * heads + head) * dim,
                              dim);
      }
    }
  }
  return {floats.data(), heads * dim, dim};
}

HeadsView NodeBuffers::k(const AttentionNode& node) {
  return widen(node.k, node.tokens, k_);
}
HeadsView NodeBuffers::v(const AttentionNode& node) {
  return widen(node.v, node.tokens, v_);
}

float* NodeBuffers::result(const AttentionNode& node) {
  if (on_host(node.result)) return static_cast<float*>(node.result->data);
  result_.resize(ggml_nbytes(node.result) / sizeof(float));
  return result_.data();
}

void NodeBuffers::store_result(const AttentionNode& node) {
  if (!on_host(node.result)) ggml_backend_tensor_set(node.result, result_.data(), 0, ggml_nbytes(node.result));
}

}  // namespace kvasir
