// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/geometry.h"

#include <fmt/format.h>
#include <ggml.h>
#include <llama-cpp.h>

#include <exception>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "host/attention_node.h"
#include "host/llama_log.h"
#include "host/token_batch.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

constexpr int kDryCells = 256;  // llama.cpp's smallest cache
constexpr int kDrySequences = 4;
constexpr int kDryBatch = 16;

struct Row {
  llama_seq_id sequence;
  llama_pos position;
};

// What one decode shows of a layer.
struct SeenLayer {
  LayerGeometry geometry;
  std::vector<std::vector<bool>> mask;  // [tokens][cells looked at]
};

class DryContext {
 public:
  explicit DryContext(llama_model* model) : layers_(size_t(llama_model_n_layer(model))), batch_(kDryBatch) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = kDryCells;
    params.n_batch = params.n_ubatch = kDryBatch;
    params.n_seq_max = kDrySequences;
    params.kv_unified = true;
    params.swa_full = false;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    params.no_perf = true;
    params.cb_eval = on_node;
    params.cb_eval_user_data = this;
    clear_llama_error();
    context_.reset(llama_init_from_model(model, params));
    if (!context_) {
      throw Error(ErrorCode::unsupported, "llama.cpp can't run this model with flash attention: " + llama_error());
    }
    if (memory() == nullptr) {
      throw Error(ErrorCode::unsupported,
                  "this model keeps no KV cache (an embedding or diffusion model); Kvasir needs "
                  "a causal language model");
    }
  }

  llama_memory_t memory() const { return llama_get_memory(context_.get()); }
  bool rope_depends_on_context() const { return rope_depends_on_context_; }

  // Runs `rows` and returns each layer; masks hold the first `cells` cells.
  std::vector<SeenLayer> decode(const std::vector<Row>& rows, int cells) {
    for (std::optional<SeenLayer>& layer : layers_) layer.reset();
    cells_ = cells;
    error_ = nullptr;
    batch_.clear();
    for (const Row& row : rows) batch_.add(0, row.position, row.sequence, &row == &rows.back());
    clear_llama_error();
    const int status = llama_decode(context_.get(), batch_.get());
    if (error_) std::rethrow_exception(error_);
    if (status != 0) {
      throw Error(ErrorCode::unsupported, fmt::format("llama.cpp can't run a short batch of this model (status {}): {}",
                                                      status, llama_error()));
    }
    std::vector<SeenLayer> seen;
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (!layers_[i]) {
        throw Error(ErrorCode::unsupported,
                    fmt::format("layer {} of this model has no attention node of its own (recurrent layers and layers "
                                "that share a cache have none); Kvasir needs one in each of {} layers",
                                i, layers_.size()));
      }
      seen.push_back(std::move(*layers_[i]));
    }
    return seen;
  }

 private:
  static bool on_node(ggml_tensor* tensor, bool ask, void* user_data) {
    DryContext& self = *static_cast<DryContext*>(user_data);
    if (ask) {
      if (tensor->op == GGML_OP_ROPE && tensor->src[2] != nullptr) {
        self.rope_depends_on_context_ |= std::string_view(tensor->src[2]->name).starts_with("rope_factors_");
      }
      return is_attention_node(tensor);
    }
    if (self.error_) return false;
    try {
      self.record(tensor);
      return true;
    } catch (...) {  // must not cross llama.cpp's frames
      self.error_ = std::current_exception();
      return false;
    }
  }

  void record(ggml_tensor* tensor) {
    const AttentionNode node = read_attention_node(tensor);
    require_half_cache(node);
    if (size_t(node.layer) >= layers_.size()) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("this model runs attention in layer {} of {}", node.layer, layers_.size()));
    }
    if (layers_[size_t(node.layer)]) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("this model attends twice over the cache of layer {} (layers that share a cache do "
                              "this)",
                              node.layer));
    }
    if (node.tokens != batch_.size()) {
      throw Error(ErrorCode::unsupported, fmt::format("layer {} attends for {} tokens of a batch of {}", node.layer,
                                                      node.tokens, batch_.size()));
    }
    SeenLayer& seen = layers_[size_t(node.layer)].emplace();
    seen.geometry = node.geometry;
    seen.geometry.sink_logits = read_sinks(node);
    for (int64_t row = 0; row < node.tokens; ++row) seen.mask.push_back(read_mask_row(node, row, cells_));
  }

  std::vector<std::optional<SeenLayer>> layers_;
  TokenBatch batch_;
  llama_context_ptr context_;
  std::exception_ptr error_;
  int cells_ = 0;
  bool rope_depends_on_context_ = false;
};

void check_order(const std::vector<Row>& rows, const std::vector<SeenLayer>& layers) {
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    for (size_t i = 0; i < rows.size(); ++i) {
      for (size_t j = 0; j < layers[layer].mask[i].size(); ++j) {
        const bool expected =
            j < rows.size() && rows[j].sequence == rows[i].sequence && rows[j].position <= rows[i].position;
        if (layers[layer].mask[i][j] != expected) {
          throw Error(ErrorCode::unsupported,
                      fmt::format("layer {}: row {} of a batch {} cell {}; Kvasir needs causal attention with cells in "
                                  "batch order",
                                  layer, i, expected ? "misses" : "sees", j));
        }
      }
    }
  }
}

// The window of each layer. `masks`: what a query at position `window` sees of keys at 0, 1, window - 1 and itself.
void prove_windows(int window, const std::vector<SeenLayer>& masks, Geometry& geometry) {
  const std::vector<bool> full = {true, true, true, true}, windowed = {false, true, true, true};
  for (size_t layer = 0; layer < masks.size(); ++layer) {
    const std::vector<bool>& mask = masks[layer].mask[0];
    if (mask == windowed) {
      geometry.layers[layer].window = window;
    } else if (mask != full) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("layer {} of this model limits attention by something other than a sliding window of {} "
                              "tokens (chunked attention does this)",
                              layer, window));
    }
  }
}

}  // namespace

DryPassResult dry_pass(llama_model* model) {
  start_llama();
  DryContext context(model);
  DryPassResult result;

  // Positions close together within a sequence, so that no window hides a key.
  const std::vector<Row> rows = {{2, 40}, {2, 41}, {0, 7}, {1, 90}, {1, 91}};
  const std::vector<SeenLayer> layers = context.decode(rows, int(rows.size()) + 3);
  check_order(rows, layers);
  for (const SeenLayer& layer : layers) result.geometry.layers.push_back(layer.geometry);

  if (const int window = llama_model_n_swa(model); window > 0) {
    if (window < 3) throw Error(ErrorCode::unsupported, fmt::format("a sliding window of {} tokens", window));
    // A sequence with holes: the key at window - 1 is written by another sequence and shared with sequence 0.
    llama_memory_clear(context.memory(), false);
    context.decode({{0, 0}, {0, 1}, {1, window - 1}}, 3);
    llama_memory_seq_cp(context.memory(), 1, 0, -1, -1);
    prove_windows(window, context.decode({{0, window}}, 4), result.geometry);
  }
  result.rope_depends_on_context = context.rope_depends_on_context();
  return result;
}

}  // namespace kvasir
