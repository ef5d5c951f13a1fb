// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "matrix_product.h"

#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <stdexcept>

namespace kvasir {
namespace {

constexpr int kInner = 512;  // a multiple of every format's block
constexpr int kRows = 64;

struct Free {
  void operator()(ggml_context* p) const { ggml_free(p); }
  void operator()(ggml_backend* p) const { ggml_backend_free(p); }
  void operator()(ggml_backend_buffer* p) const { ggml_backend_buffer_free(p); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

Owned<ggml_context> new_context() {
  return Owned<ggml_context>(ggml_init({ggml_tensor_overhead() * 8 + ggml_graph_overhead(), nullptr, true}));
}

std::vector<float> uniform_values(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random()) / 2147483648.0f - 1.0f;
  return values;
}

// b is rounded to the partner type of the weights' format. For 8-bit partners each of its values, at most 1 in size,
// moves by at most 1/254, so |db| <= sqrt(k) / 254, and the scale is rounded to f16; floats move by half an ulp. The
// last term is the summation in float.
double relative_bound(ggml_type type, double norm_b) {
  const double sum = kInner * std::ldexp(1.0, -24);
  switch (ggml_get_type_traits_cpu(type)->vec_dot_type) {
    case GGML_TYPE_F32: return sum;
    case GGML_TYPE_F16: return std::ldexp(1.0, -11) + sum;
    case GGML_TYPE_BF16: return std::ldexp(1.0, -8) + sum;
    default: return std::sqrt(double(kInner)) / 254.0 / norm_b + std::ldexp(1.0, -10) + sum;
  }
}

struct Product {
  ggml_type type;
  int columns;
  std::vector<uint8_t> weights;
  std::vector<double> decoded;  // what the weights stand for
  std::vector<float> b;

  Product(ggml_type type, int columns) : type(type), columns(columns) {
    const std::vector<float> a = uniform_values(size_t{kInner} * kRows, 1);
    b = uniform_values(size_t{kInner} * columns, 2);
    weights.resize(ggml_row_size(type, kInner) * kRows);
    ggml_quantize_chunk(type, a.data(), weights.data(), 0, kRows, kInner, nullptr);
    std::vector<float> floats = a;
    if (type != GGML_TYPE_F32) ggml_get_type_traits(type)->to_float(weights.data(), floats.data(), kInner * kRows);
    decoded.assign(floats.begin(), floats.end());
  }

  // Largest error of c [columns, rows], and the bound that goes with it.
  void compare(const std::vector<float>& c, MatrixProduct& result) const {
    result.bound = relative_bound(type, 1e300);
    for (int column = 0; column < columns; ++column) {
      const float* y = &b[size_t{kInner} * column];
      double norm_b = 0.0;
      for (int i = 0; i < kInner; ++i) norm_b += double(y[i]) * y[i];
      norm_b = std::sqrt(norm_b);
      result.bound = std::max(result.bound, relative_bound(type, norm_b));
      for (int row = 0; row < kRows; ++row) {
        const double* x = &decoded[size_t{kInner} * row];
        double dot = 0.0, norm_a = 0.0;
        for (int i = 0; i < kInner; ++i) {
          dot += x[i] * y[i];
          norm_a += x[i] * x[i];
        }
        const double error = std::abs(c[size_t{kRows} * column + row] - dot) / (std::sqrt(norm_a) * norm_b);
        // A NaN sticks: it is taken by !(<=), and nothing replaces it.
        if (!(error <= result.error) && !std::isnan(result.error)) result.error = error;
      }
    }
  }
};

// False: this weight layout doesn't take the product.
bool multiply(ggml_backend* backend, ggml_backend_buffer_type_t layout, const Product& product,
              std::vector<float>& result) {
  const auto weights = new_context(), graph_context = new_context();
  ggml_tensor* a = ggml_new_tensor_2d(weights.get(), product.type, kInner, kRows);
  ggml_tensor* b = ggml_new_tensor_2d(graph_context.get(), GGML_TYPE_F32, kInner, product.columns);
  ggml_tensor* c = ggml_mul_mat(graph_context.get(), a, b);
  {
    // Asked with an empty buffer first, as llama.cpp does: a layout may refuse to hold the format.
    const Owned<ggml_backend_buffer> empty(ggml_backend_buft_alloc_buffer(layout, 0));
    a->buffer = empty.get();
    const bool supported = ggml_backend_dev_supports_op(ggml_backend_get_device(backend), c);
    a->buffer = nullptr;
    if (!supported) return false;
  }
  const Owned<ggml_backend_buffer> a_buffer(ggml_backend_alloc_ctx_tensors_from_buft(weights.get(), layout));
  const Owned<ggml_backend_buffer> c_buffer(ggml_backend_alloc_ctx_tensors(graph_context.get(), backend));
  if (!a_buffer || !c_buffer) throw std::runtime_error("ggml could not allocate a matrix");
  ggml_backend_tensor_set(a, product.weights.data(), 0, product.weights.size());
  ggml_backend_tensor_set(b, product.b.data(), 0, ggml_nbytes(b));
  ggml_cgraph* graph = ggml_new_graph(graph_context.get());
  ggml_build_forward_expand(graph, c);
  if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS)
    throw std::runtime_error("ggml could not compute a matrix product");
  result.resize(size_t{kRows} * product.columns);
  ggml_backend_tensor_get(c, result.data(), 0, ggml_nbytes(c));
  return true;
}

// The plain layout, and those that ggml repacks weights into where the processor makes it worth while.
std::vector<ggml_backend_buffer_type_t> weight_layouts(ggml_backend_dev_t device) {
  std::vector<ggml_backend_buffer_type_t> layouts = {ggml_backend_dev_buffer_type(device)};
  auto* extra = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
      ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts"));
  if (extra != nullptr)
    for (ggml_backend_buffer_type_t* layout = extra(device); layout != nullptr && *layout != nullptr; ++layout)
      layouts.push_back(*layout);
  return layouts;
}

}  // namespace

std::vector<MatrixProduct> run_matrix_products() {
  ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  const Owned<ggml_backend> backend(device != nullptr ? ggml_backend_dev_init(device, nullptr) : nullptr);
  if (!backend) throw std::runtime_error("ggml has no CPU backend");
  std::vector<MatrixProduct> results;
  for (ggml_backend_buffer_type_t layout : weight_layouts(device)) {
    for (ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1,
                           GGML_TYPE_Q5_0, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K}) {
      for (int columns : {1, 16}) {
        const Product product(type, columns);
        std::vector<float> c;
        if (!multiply(backend.get(), layout, product, c)) continue;
        MatrixProduct result;
        result.name = std::string(ggml_type_name(type)) + " in " + ggml_backend_buft_name(layout) + ", " +
                      std::to_string(columns) + " columns";
        product.compare(c, result);
        results.push_back(result);
      }
    }
  }
  return results;
}

}  // namespace kvasir
