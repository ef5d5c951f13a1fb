// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/ggml_attention.h"

#include <fmt/format.h>
#include <ggml-backend.h>
#include <ggml-cpp.h>
#include <ggml-cpu.h>
#include <ggml.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "cli/ggml_rows.h"
#include "kvasir/error.h"

namespace kvasir::cli {
namespace {

// Tensors and graph of one cache.
struct CacheCopy {
  ggml_context_ptr context;
  ggml_backend_buffer_ptr buffer;
  ggml_tensor* q = nullptr;     // [batch, block, heads, dim] in memory
  ggml_tensor* k = nullptr;     // [batch, tokens, kv_heads * dim] in memory
  ggml_tensor* v = nullptr;     // the same
  ggml_tensor* mask = nullptr;  // [block, tokens] in memory, or none
  ggml_tensor* out = nullptr;
  ggml_cgraph* graph = nullptr;
};

void fill_causal(ggml_tensor* mask, int64_t past) {
  const ggml_fp16_t seen = ggml_fp32_to_fp16(0.0f), hidden = ggml_fp32_to_fp16(-INFINITY);
  for (int64_t row = 0; row < mask->ne[1]; ++row) {
    auto* to = static_cast<ggml_fp16_t*>(mask->data) + row * mask->ne[0];
    std::fill_n(to, past + row + 1, seen);
    std::fill(to + past + row + 1, to + mask->ne[0], hidden);
  }
}

}  // namespace

struct GgmlAttention::Impl {
  // A cell holds all heads side by side, and attention reads a permuted view.
  CacheCopy make_copy(ggml_type type, const LayerInput& input) {
    const LayerGeometry& layer = input.layer;
    CacheCopy copy;
    copy.context.reset(ggml_init({16 * ggml_tensor_overhead() + ggml_graph_overhead(), nullptr, true}));
    ggml_context* context = copy.context.get();
    const auto cells = [&](int dim, ggml_tensor*& all) {
      all = ggml_new_tensor_3d(context, type, int64_t(dim) * layer.kv_heads, input.tokens(), input.batch);
      return ggml_view_4d(context, all, dim, input.tokens(), layer.kv_heads, input.batch, all->nb[1],
                          ggml_row_size(type, dim), all->nb[2], 0);
    };
    ggml_tensor* k = cells(layer.key_dim, copy.k);
    ggml_tensor* v = cells(layer.value_dim, copy.v);
    copy.q = ggml_new_tensor_4d(context, GGML_TYPE_F32, layer.key_dim, layer.heads, input.block, input.batch);
    if (input.block > 1) copy.mask = ggml_new_tensor_2d(context, GGML_TYPE_F16, input.tokens(), input.block);
    copy.out = ggml_flash_attn_ext(context, ggml_permute(context, copy.q, 0, 2, 1, 3), k, v, copy.mask, layer.scale,
                                   0.0f, layer.softcap);
    copy.graph = ggml_new_graph(context);
    ggml_build_forward_expand(copy.graph, copy.out);
    copy.buffer.reset(ggml_backend_alloc_ctx_tensors(context, backend.get()));
    if (!copy.buffer)
      throw Error(ErrorCode::out_of_memory,
                  "no memory for the baseline's caches; use fewer --tokens or a smaller "
                  "--batch");
    return copy;
  }

  static void fill(CacheCopy& copy, const LayerInput& input, const GgmlRows& rows) {
    const auto cells = [&](ggml_tensor* tensor, const std::vector<float>& values) {
      for (int sequence = 0; sequence < input.batch; ++sequence) {
        std::byte* to = static_cast<std::byte*>(tensor->data) + size_t(sequence) * tensor->nb[2];
        if (sequence == 0)
          rows.encode(values, to);
        else
          std::memcpy(to, tensor->data, tensor->nb[2]);
      }
    };
    cells(copy.k, input.k);
    cells(copy.v, input.v);
    std::ranges::copy(input.q, static_cast<float*>(copy.q->data));
    if (copy.mask) fill_causal(copy.mask, input.past);
  }

  ggml_backend_ptr backend;
  std::vector<CacheCopy> copies;
};

GgmlAttention::GgmlAttention(const std::string& name, const LayerInput& input, int copies, int threads)
    : impl_(std::make_unique<Impl>()) {
  const GgmlRows rows(name);
  for (const int dim : {input.layer.key_dim, input.layer.value_dim}) rows.require_whole_blocks(dim);
  impl_->backend.reset(ggml_backend_cpu_init());
  ggml_backend_cpu_set_n_threads(impl_->backend.get(), threads);
  for (int i = 0; i < copies; ++i) {
    impl_->copies.push_back(impl_->make_copy(ggml_type(rows.type()), input));
    Impl::fill(impl_->copies.back(), input, rows);
  }
}
GgmlAttention::~GgmlAttention() = default;

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
