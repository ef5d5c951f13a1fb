// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The one node of a layer at which Kvasir stands in for llama.cpp: GGML_OP_FLASH_ATTN_EXT. Everything about the layer
// is read from the node and its sources; no name of a model family appears.
//
//   src[0] q [tokens, heads, key_dim] f32, strided     op_params: scale, ALiBi bias, soft-cap
//   src[1] k [cells, kv_heads, key_dim] f16, a view of the tensor cache_k_l<layer>
//   src[2] v [cells, kv_heads, value_dim] f16, a view of cache_v_l<layer>
//   src[3] mask [tokens, cells] f16: 0 where a cell is seen, -inf elsewhere
//   src[4] one learned sink logit per head, or null
//   result [tokens, heads, value_dim] f32, contiguous
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvasir/attention.h"

struct ggml_tensor;

namespace kvasir {

struct AttentionNode {
  ggml_tensor* result = nullptr;
  const ggml_tensor* q = nullptr;
  const ggml_tensor* k = nullptr;
  const ggml_tensor* v = nullptr;
  const ggml_tensor* mask = nullptr;
  const ggml_tensor* sinks = nullptr;
  const ggml_tensor* k_root = nullptr;  // llama.cpp's whole K tensor of the layer
  const ggml_tensor* v_root = nullptr;
  int layer = 0;
  int64_t tokens = 0;
  int64_t cells = 0;       // of the view: at least the micro-batch, padded by llama.cpp
  int64_t root_cells = 0;  // of the whole tensor
  LayerGeometry geometry;  // window and sink logits aren't set here
};

bool is_attention_node(const ggml_tensor* tensor);

// The node's parts, from its metadata alone. Throws Error unsupported: the graph isn't one that Kvasir can take over,
// and why.
AttentionNode read_attention_node(ggml_tensor* tensor);

// Types a cache tensor must have for `read_rows`; native contexts of other types may still be described.
void require_half_cache(const AttentionNode& node);

// sinks as floats; empty without sinks.
std::vector<float> read_sinks(const AttentionNode& node);

// Row `row` of the mask, first `count` cells: true where the cell is seen. Throws Error unsupported for a mask that
// holds anything but 0 and -inf.
std::vector<bool> read_mask_row(const AttentionNode& node, int64_t row, int64_t count);

// Reads q, k and v of the first `tokens` cells as floats, and writes the result. Owns the buffers between.
class NodeBuffers {
 public:
  HeadsView q(const AttentionNode& node);  // in place where the tensor lies in host memory
  HeadsView k(const AttentionNode& node);
  HeadsView v(const AttentionNode& node);
  float* result(const AttentionNode& node);      // where to write [tokens, heads, value_dim]
  void store_result(const AttentionNode& node);  // hands it to the device if the tensor lies there

 private:
  HeadsView widen(const ggml_tensor* cells, int64_t tokens, std::vector<float>& floats);

  std::vector<float> q_, k_, v_, result_;
  std::vector<std::byte> staging_;
};

}  // namespace kvasir
