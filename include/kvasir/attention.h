// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The single seam that hosts call: new keys and values go in, attention over the whole compressed past comes out.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kvasir/cache.h"

namespace kvasir {

// A read-only float view [tokens, heads, dim] with strides in floats; the channel stride is 1.
struct HeadsView {
  const float* data = nullptr;
  int64_t token_stride = 0;
  int64_t head_stride = 0;
};

// What one layer's attention had before it and what it made of it: q [tokens, heads, key_dim], k and v
// [tokens, kv_heads, dim], out [tokens, heads, value_dim].
struct AttentionRows {
  HeadsView q, k, v, out;
  int tokens = 0;
};

// `count` consecutive rows of the batch that belong to one sequence, in order; they are appended at the sequence's
// current length in this layer.
struct SequenceSpan {
  SequenceId sequence = 0;
  int first = 0;
  int count = 0;
};

// Instruction sets of the kernels. `scalar` is the plain twin, and always there.
// avx512 is F, BW, VL, DQ and VNNI; neon is AArch64's, which on other processors is emulated in builds for tests.
enum class SimdLevel : uint8_t { scalar, avx2, avx512, neon };
inline constexpr SimdLevel kSimdLevels[] = {SimdLevel::scalar, SimdLevel::avx2, SimdLevel::avx512, SimdLevel::neon};

struct AttentionOptions {
  int threads = 1;
  bool reference = false;  // the double-precision path (KVASIR_REFERENCE=1)
  SimdLevel simd = SimdLevel::scalar;

  // threads as given; KVASIR_REFERENCE and KVASIR_SIMD=scalar|avx2|avx512|neon from the environment, else the best
  // level this processor has (never an emulated one). Throws Error invalid_argument for an unknown or unavailable
  // level.
  static AttentionOptions from_environment(int threads);
};
std::string to_string(SimdLevel level);

// Appends k and v [tokens, kv_heads, dim] to `layer` of each span's sequence and writes softmax attention of q
// [tokens, heads, dim] to out [tokens, heads, value_dim], contiguous. Causal; windows, soft-cap and sink logits by
// the layer's geometry. Rows outside every span are not written.
// Throws Error: invalid_argument (unknown sequence, overlapping spans), out_of_memory (nothing appended).
void attend(Cache& cache, int layer, const HeadsView& q, const HeadsView& k, const HeadsView& v,
            std::span<const SequenceSpan> spans, float* out, const AttentionOptions& options);

}  // namespace kvasir
