// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/ggml_attention.h"

#include <fmt/format.h>
#include <ggml-backend.h>
#include <ggml-cpp.h>
#include <ggml-cpu.h>
#include <ggml.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "kvasir/error.h"

namespace kvasir::cli {
namespace {

ggml_type type_of(const std::string& name) {
  for (const ggml_type type : {GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0})
    if (name == ggml_type_name(type)) return type;
  throw Error(ErrorCode::internal, "no baseline of type " + name);
}

// Tensors and graph of one cache.
struct CacheCopy {
  ggml_context_ptr context;
  ggml_backend_buffer_ptr buffer;
  ggml_tensor* q = nullptr;
  ggml_tensor* k = nullptr;
  ggml_tensor* v = nullptr;
  ggml_tensor* out = nullptr;
  ggml_cgraph* graph = nullptr;
};

}  // namespace

struct GgmlAttention::Impl {
  // A cell holds all heads side by side, and attention reads a permuted view. No mask: llama.cpp passes one, so this
  // is a little kind to the baseline; so is leaving out the rotation that llama.cpp does around quantized caches.
  CacheCopy make_copy(ggml_type type, const LayerGeometry& layer, int64_t tokens) {
    CacheCopy copy;
    copy.context.reset(ggml_init({16 * ggml_tensor_overhead() + ggml_graph_overhead(), nullptr, true}));
    ggml_context* context = copy.context.get();
    const auto cells = [&](int dim, ggml_tensor*& all) {
      all = ggml_new_tensor_2d(context, type, int64_t(dim) * layer.kv_heads, tokens);
      return ggml_view_3d(context, all, dim, tokens, layer.kv_heads, all->nb[1], ggml_row_size(type, dim), 0);
    };
    ggml_tensor* k = cells(layer.key_dim, copy.k);
    ggml_tensor* v = cells(layer.value_dim, copy.v);
    copy.q = ggml_new_tensor_3d(context, GGML_TYPE_F32, layer.key_dim, 1, layer.heads);
    copy.out = ggml_flash_attn_ext(context, copy.q, k, v, nullptr, layer.scale, 0.0f, layer.softcap);
    copy.graph = ggml_new_graph(context);
    ggml_build_forward_expand(copy.graph, copy.out);
    copy.buffer.reset(ggml_backend_alloc_ctx_tensors(context, backend.get()));
    if (!copy.buffer) throw Error(ErrorCode::out_of_memory, "no memory for the baseline's caches; use fewer --tokens");
    return copy;
  }

  ggml_backend_ptr backend;
  std::vector<CacheCopy> copies;
};

GgmlAttention::GgmlAttention(const std::string& name, const LayerGeometry& layer, int64_t tokens,
                             std::span<const float> k, std::span<const float> v, int copies, int threads)
    : impl_(std::make_unique<Impl>()) {
  const ggml_type type = type_of(name);
  for (const int dim : {layer.key_dim, layer.value_dim})
    if (dim % ggml_blck_size(type) != 0)
      throw Error(ErrorCode::unsupported, fmt::format("ggml's {} holds blocks of {} channels, not heads of {}", name,
                                                      ggml_blck_size(type), dim));
  impl_->backend.reset(ggml_backend_cpu_init());
  ggml_backend_cpu_set_n_threads(impl_->backend.get(), threads);
  for (int i = 0; i < copies; ++i) {
    CacheCopy copy = impl_->make_copy(type, layer, tokens);
    if (i == 0) {
      ggml_quantize_chunk(type, k.data(), copy.k->data, 0, tokens, copy.k->ne[0], nullptr);
      ggml_quantize_chunk(type, v.data(), copy.v->data, 0, tokens, copy.v->ne[0], nullptr);
    } else {
      std::memcpy(copy.k->data, impl_->copies[0].k->data, ggml_nbytes(copy.k));
      std::memcpy(copy.v->data, impl_->copies[0].v->data, ggml_nbytes(copy.v));
    }
    impl_->copies.push_back(std::move(copy));
  }
}
GgmlAttention::~GgmlAttention() = default;

void GgmlAttention::set_query(int copy, std::span<const float> q) {
  std::ranges::copy(q, static_cast<float*>(impl_->copies[size_t(copy)].q->data));
}

void GgmlAttention::run(int copy) {
  if (ggml_backend_graph_compute(impl_->backend.get(), impl_->copies[size_t(copy)].graph) != GGML_STATUS_SUCCESS)
    throw Error(ErrorCode::internal, "ggml's flash_attn_ext failed");
}

std::span<const float> GgmlAttention::output(int copy) const {
  const ggml_tensor* out = impl_->copies[size_t(copy)].out;
  return {static_cast<const float*>(out->data), size_t(ggml_nelements(out))};
}

size_t GgmlAttention::bytes() const {
  return ggml_nbytes(impl_->copies[0].k) + ggml_nbytes(impl_->copies[0].v);
}

}  // namespace kvasir::cli
