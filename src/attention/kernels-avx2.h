// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The AVX2 + FMA + F16C kernels behind avx2_kernels(). Head dims and the counts of raw segments are multiples of 8.
//
// Rules for every *-avx2.cpp file: no function of a standard or shared header that isn't an intrinsic, all helpers
// with internal linkage (page_view.h says why).
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/kernels.h"
#include "attention/page_view.h"

namespace kvasir::avx2 {

// The levels (0..255) of a block of a packed segment, in the order of page_layout.h: [cells][8 vectors][32 bytes].
void unpack_levels(const SegmentView& segment, int block, uint8_t* out);
// The same for a segment with a trellis; unpack_levels goes on to it.
void unpack_trellis(const SegmentView& segment, int block, uint8_t* out);

// What multiplies levels: x as 16-bit integers, x[i] = scale * integer. `sum` is that of the integers.
struct Quantized {
  float scale;
  int sum;
};
// n is a multiple of 8, at most kMaxHeadDim. Each group of 4 is written in the order 0 2 1 3, see add_products.
Quantized quantize_row(const float* x, int n, int16_t* out);

void prepare_query(const SideLayout& layout, const float* q, int rows, KernelScratch& scratch);
void score_page(const SideLayout& layout, const std::byte* page, const float* q, int rows, float* scores,
                KernelScratch& scratch);
void gather_page(const SideLayout& layout, const std::byte* page, const float* weights, int rows, float* out,
                 KernelScratch& scratch);

// As in Kernels, but with strides (in elements), and scores are added to.
void add_score_halves(HalfKind kind, const uint16_t* k, int k_stride, int tokens, int dim, const float* q, int q_stride,
                      int rows, float* scores);
void add_gather_halves(HalfKind kind, const uint16_t* v, int v_stride, int tokens, int dim, const float* weights,
                       int rows, float* out, int out_stride);
void score_halves(HalfKind kind, const uint16_t* k, int tokens, int dim, const float* q, int rows, float* scores);
void gather_halves(HalfKind kind, const uint16_t* v, int tokens, int dim, const float* weights, int rows, float* out);

float softmax_step(float* scores, int tokens, float* max, float* sum);

// The segment's part of key_tile and value_tile where it is raw; `dim` is the width of a row of v.
void raw_key_tile(const SegmentView& segment, float* kt);
void raw_value_tile(const SegmentView& segment, float* v, int dim);
void key_tile(const SideLayout& layout, const std::byte* page, float* kt, KernelScratch& scratch);
void key_tile_halves(HalfKind kind, const uint16_t* k, int tokens, int dim, float* kt);
void value_tile(const SideLayout& layout, const std::byte* page, float* v, KernelScratch& scratch);
void value_tile_halves(HalfKind kind, const uint16_t* v, int tokens, int dim, float* out);
void tile_scores(const float* q, int rows, int dim, const float* kt, float* scores);
void tile_gather(const float* weights, int rows, int tokens, const float* v, int dim, float* out);

}  // namespace kvasir::avx2
