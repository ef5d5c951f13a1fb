// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <ggml.h>
#include <llama-cpp.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "host/attention_node.h"
#include "host/llama_log.h"
#include "host/token_batch.h"
#include "kvasir/engine.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

constexpr std::array kCacheTypes = {GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16, GGML_TYPE_Q8_0,  GGML_TYPE_Q5_1,
                                    GGML_TYPE_Q5_0, GGML_TYPE_Q4_1, GGML_TYPE_Q4_0, GGML_TYPE_IQ4_NL};

ggml_type cache_type(const std::string& name) {
  std::string names;
  for (const ggml_type type : kCacheTypes) {
    if (name == ggml_type_name(type)) return type;
    names += (names.empty() ? "" : ", ") + std::string(ggml_type_name(type));
  }
  throw Error(ErrorCode::not_found, fmt::format("llama.cpp has no cache type `{}`; it has {}", name, names));
}

// The tensor cache_k_l<N> or cache_v_l<N> behind a node's source, through views and (an f32 cache) casts.
const ggml_tensor* cache_tensor(const ggml_tensor* tensor) {
  while (tensor != nullptr && (tensor->view_src != nullptr || tensor->op != GGML_OP_NONE)) {
    tensor = tensor->view_src != nullptr ? tensor->view_src : tensor->src[0];
  }
  return tensor != nullptr && std::string_view(tensor->name).starts_with("cache_") ? tensor : nullptr;
}

}  // namespace

struct NativeEngine::Impl {
  Impl(std::shared_ptr<Model> model_, const std::string& type_k, const std::string& type_v, int64_t context_, int rows,
       int threads)
      : model(std::move(model_)), batch(rows), capacity(context_) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = uint32_t(context_);
    params.n_batch = params.n_ubatch = uint32_t(rows);
    params.n_threads = params.n_threads_batch = threads;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    params.type_k = cache_type(type_k);
    params.type_v = cache_type(type_v);
    params.swa_full = false;
    params.no_perf = true;
    params.cb_eval = on_node;
    params.cb_eval_user_data = this;
    clear_llama_error();
    context.reset(llama_init_from_model(model->handle(), params));
    if (!context) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("llama.cpp can't hold keys as {} and values as {}: {}", type_k, type_v, llama_error()));
    }
    measure();
  }

  // Sums the cache tensors that the attention nodes of a one-token pass look into.
  void measure() {
    measuring = true;
    const int32_t token = 0;
    run({&token, 1}, false, {});
    measuring = false;
    clear();
    if (values == 0) throw Error(ErrorCode::internal, "llama.cpp's cache tensors weren't found in its graph");
  }

  static bool on_node(ggml_tensor* tensor, bool ask, void* user_data) {
    Impl& self = *static_cast<Impl*>(user_data);
    if (!self.measuring || !is_attention_node(tensor)) return !ask;
    for (const ggml_tensor* side : {tensor->src[1], tensor->src[2]}) {
      const ggml_tensor* root = cache_tensor(side);
      if (root == nullptr || !self.roots.insert(root).second) continue;
      self.bytes += ggml_nbytes(root);
      self.values += size_t(ggml_nelements(root));
    }
    return !ask;
  }

  void clear() {
    llama_memory_clear(llama_get_memory(context.get()), false);
    length = 0;
  }

  void run(std::span<const int32_t> tokens, bool all_logits, const Engine::LogitsFn& on_logits) {
    if (length + int64_t(tokens.size()) > capacity) {
      throw Error(ErrorCode::context_full, fmt::format("{} tokens don't fit into a context of {}; raise -c or shorten "
                                                       "the text",
                                                       length + int64_t(tokens.size()), capacity));
    }
    for (size_t first = 0; first < tokens.size();) {
      batch.clear();
      size_t t = first;
      for (; t < tokens.size() && batch.room() > 0; ++t) {
        batch.add(tokens[t], llama_pos(length++), 0, all_logits || t + 1 == tokens.size());
      }
      clear_llama_error();
      if (const int status = llama_decode(context.get(), batch.get()); status != 0) {
        throw Error(ErrorCode::internal, fmt::format("llama_decode failed with status {}: {}", status, llama_error()));
      }
      for (int row = 0; on_logits && row < batch.size(); ++row) {
        if (batch.get().logits[row] == 0) continue;
        on_logits(0, int(first) + row, llama_get_logits_ith(context.get(), row));
      }
      first = t;
    }
  }

  std::shared_ptr<Model> model;
  TokenBatch batch;
  llama_context_ptr context;
  int64_t capacity;
  int64_t length = 0;
  bool measuring = false;
  std::set<const ggml_tensor*> roots;
  size_t bytes = 0, values = 0;
};

NativeEngine::NativeEngine(std::shared_ptr<Model> model, const std::string& type_k, const std::string& type_v,
                           int64_t context, int micro_batch, int threads) {
  if (context < 1 || micro_batch < 1 || threads < 1) {
    throw Error(ErrorCode::invalid_argument, "context, micro-batch and threads must be at least 1");
  }
  const int rows = int(std::min<int64_t>(micro_batch, context));
  impl_ = std::make_unique<Impl>(std::move(model), type_k, type_v, context, rows, threads);
}
NativeEngine::~NativeEngine() = default;

void NativeEngine::clear() {
  impl_->clear();
}

void NativeEngine::decode(std::span<const int32_t> tokens, bool all_logits, const Engine::LogitsFn& on_logits) {
  impl_->run(tokens, all_logits, on_logits);
}

size_t NativeEngine::cache_bytes() const {
  return impl_->bytes;
}
double NativeEngine::bits_per_value() const {
  return 8.0 * double(impl_->bytes) / double(impl_->values);
}

}  // namespace kvasir
