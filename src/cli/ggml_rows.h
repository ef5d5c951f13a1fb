// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What ggml writes into its caches and how, and what it was built for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvasir/attention.h"

namespace kvasir::cli {

// One cache type of llama.cpp: "f16", "q8_0" or "q4_0".
class GgmlRows {
 public:
  explicit GgmlRows(const std::string& type);

  // Throws Error unsupported if heads of `dim` channels aren't whole blocks of the type.
  void require_whole_blocks(int dim) const;
  size_t bytes(int64_t values) const;
  // By the function that llama.cpp's own cache is filled with (ggml's set_rows), which for q8_0 is vectorised where
  // ggml_quantize_chunk isn't.
  void encode(std::span<const float> x, std::byte* to) const;
  std::vector<float> decode(const std::byte* from, int64_t values) const;
  int type() const { return type_; }  // ggml_type

 private:
  std::string name_;
  int type_;
};

// Instruction sets that the linked ggml was built with, as far as this program has kernels for them: the level, and in
// words ("avx512 (vnni, bf16)").
SimdLevel ggml_simd();
std::string ggml_simd_text();

}  // namespace kvasir::cli
