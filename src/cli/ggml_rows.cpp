// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/ggml_rows.h"

#include <fmt/format.h>
#include <ggml-cpu.h>
#include <ggml.h>

#include "kvasir/error.h"

namespace kvasir::cli {

GgmlRows::GgmlRows(const std::string& type) : name_(type), type_(GGML_TYPE_COUNT) {
  for (const ggml_type known : {GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0})
    if (type == ggml_type_name(known)) type_ = known;
  if (type_ == GGML_TYPE_COUNT) throw Error(ErrorCode::internal, "no baseline of type " + type);
  ggml_cpu_init();
}

void GgmlRows::require_whole_blocks(int dim) const {
  const auto block = ggml_blck_size(ggml_type(type_));
  if (dim % block != 0)
    throw Error(ErrorCode::unsupported,
                fmt::format("ggml's {} holds blocks of {} channels, not heads of {}", name_, block, dim));
}

size_t GgmlRows::bytes(int64_t values) const {
  return ggml_row_size(ggml_type(type_), values);
}

void GgmlRows::encode(std::span<const float> x, std::byte* to) const {
  ggml_get_type_traits_cpu(ggml_type(type_))->from_float(x.data(), to, int64_t(x.size()));
}

std::vector<float> GgmlRows::decode(const std::byte* from, int64_t values) const {
  std::vector<float> x(static_cast<size_t>(values));
  ggml_get_type_traits(ggml_type(type_))->to_float(from, x.data(), values);
  return x;
}

SimdLevel ggml_simd() {
  if (ggml_cpu_has_avx512()) return SimdLevel::avx512;
  if (ggml_cpu_has_neon()) return SimdLevel::neon;
  return ggml_cpu_has_avx2() && ggml_cpu_has_fma() && ggml_cpu_has_f16c() ? SimdLevel::avx2 : SimdLevel::scalar;
}

std::string ggml_simd_text() {
  std::string more;
  const auto add = [&](int has, const char* name) {
    if (has) more += (more.empty() ? "" : ", ") + std::string(name);
  };
  if (ggml_cpu_has_avx512()) {
    add(ggml_cpu_has_avx512_vnni(), "vnni");
    add(ggml_cpu_has_avx512_vbmi(), "vbmi");
    add(ggml_cpu_has_avx512_bf16(), "bf16");
    return more.empty() ? "avx512" : "avx512 (" + more + ")";
  }
  if (ggml_cpu_has_avx2()) return ggml_cpu_has_avx_vnni() ? "avx2 (vnni)" : "avx2";
  if (ggml_cpu_has_avx()) return "avx";
  add(ggml_cpu_has_neon(), "neon");
  add(ggml_cpu_has_dotprod(), "dotprod");
  add(ggml_cpu_has_sve(), "sve");
  return more.empty() ? "plain" : more;
}

}  // namespace kvasir::cli
