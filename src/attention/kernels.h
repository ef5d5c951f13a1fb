// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The primitives attention is made of, one table per instruction set. Every entry of every table computes the same
// thing as the scalar one (tests/attention/kernels_test.cpp holds them together); the planner in attend.cpp never
// asks which set it runs on. All floats are in the mapped basis of the codec (page_layout.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/half.h"
#include "codec/page_layout.h"
#include "kvasir/attention.h"

namespace kvasir {

inline constexpr int kMaxRows = 64;                     // that score_page and gather_page take
inline constexpr int kMaxMappedDim = 2 * kMaxHeadDim;   // channels and the signs of a residual
inline constexpr int kMaxSegments = kMaxMappedDim / 8;  // kCellChannels is the smallest

// Rows of one segment as integers, ready to be multiplied with levels.
struct RowTerms {
  float factor;     // scale of the integers times the codebook's step
  int offset_sum;   // codebook offset times the sum of the integers (of their high bytes, where they are split in two)
  int offset_low;   // the same of their low bytes, else 0
  float plain_sum;  // what multiplies a token's zero point (scores), or is added to all channels (gather)
};

// Scratch of one worker: sized once, so kernels never allocate. Meaning is private to each table.
struct alignas(64) KernelScratch {
  uint8_t levels[kPageTokens * kMaxHeadDim];
  int16_t query[kMaxRows * kMaxMappedDim];  // what prepare_query leaves for score_page
  RowTerms terms[kMaxSegments * kMaxRows];
  int16_t weights[kMaxRows * kPageTokens];
  uint16_t scales[kPageTokens];
};

struct Kernels {
  SimdLevel level;

  // -- few query rows (decode): packed pages are read in the integer domain, each decoded once for all rows --

  // dim is the codec's mapped_dim() here, q [rows, dim] floats with the attention scale and the map already applied,
  // rows <= kMaxRows.

  // Works out once what score_page needs of q for every page of the layout; it stays in scratch.
  void (*prepare_query)(const SideLayout& layout, const float* q, int rows, KernelScratch& scratch);
  // scores[r * 64 + t] = <q_r, k_t> for the page's 64 tokens, with the q and rows of the last prepare_query.
  void (*score_page)(const SideLayout& layout, const std::byte* page, const float* q, int rows, float* scores,
                     KernelScratch& scratch);
  // out[r * dim + j] += sum over the page's 64 tokens of weights[r * 64 + t] * v_t[j]; weights >= 0.
  void (*gather_page)(const SideLayout& layout, const std::byte* page, const float* weights, int rows, float* out,
                      KernelScratch& scratch);
  // The same for tokens <= 64 rows [tokens, dim] of 16-bit floats (windows, raw pages). scores and weights keep the
  // row stride of 64.
  void (*score_halves)(HalfKind kind, const uint16_t* k, int tokens, int dim, const float* q, int rows, float* scores);
  void (*gather_halves)(HalfKind kind, const uint16_t* v, int tokens, int dim, const float* weights, int rows,
                        float* out);

  // -- softmax --

  // One online-softmax step over one row: scores[0 .. tokens) become exp(score - new_max) in place, *sum and *max are
  // updated; returns the factor exp(old_max - new_max) by which earlier output must be scaled (0 when there was none).
  // Scores of -infinity are masked and become 0; a row of only -infinity leaves *max as it is and returns 1.
  float (*softmax_step)(float* scores, int tokens, float* max, float* sum);

  // -- many query rows (prefill): each page becomes a float tile once, then plain matrix products --

  // kt[c * 64 + t] = k_t[c]; tokens beyond `tokens` are zero.
  void (*key_tile)(const SideLayout& layout, const std::byte* page, float* kt, KernelScratch& scratch);
  void (*key_tile_halves)(HalfKind kind, const uint16_t* k, int tokens, int dim, float* kt);
  // v[t * dim + c] = v_t[c].
  void (*value_tile)(const SideLayout& layout, const std::byte* page, float* v, KernelScratch& scratch);
  void (*value_tile_halves)(HalfKind kind, const uint16_t* v, int tokens, int dim, float* out);
  // scores[r * 64 + t] = sum_c q[r * dim + c] * kt[c * 64 + t], any number of rows.
  void (*tile_scores)(const float* q, int rows, int dim, const float* kt, float* scores);
  // out[r * dim + c] += sum_t weights[r * 64 + t] * v[t * dim + c] over `tokens` tokens.
  void (*tile_gather)(const float* weights, int rows, int tokens, const float* v, int dim, float* out);
};

const Kernels& scalar_kernels();
#ifdef KVASIR_X86
const Kernels& avx2_kernels();    // AVX2 + FMA + F16C
const Kernels& avx512_kernels();  // those and AVX-512 F, BW, VL, DQ, VNNI
#endif
#ifdef KVASIR_NEON
const Kernels& neon_kernels();
#endif

bool simd_available(SimdLevel level);         // compiled in and present on this processor, or emulated
bool simd_emulated(SimdLevel level);          // there for tests only, and slow
const Kernels& kernels_for(SimdLevel level);  // throws Error invalid_argument if not available

}  // namespace kvasir
