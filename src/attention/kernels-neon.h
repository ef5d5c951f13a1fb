// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The NEON kernels behind neon_kernels(): ARMv8.0-A, so every AArch64 processor. Head dims and the counts of raw
// segments are multiples of 8. What isn't described here is as in kernels-avx2.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/kernels.h"
#include "attention/page_view.h"

namespace kvasir::neon {

// The levels (0..255) of a block of a packed segment, in the order of page_layout.h: [cells][8 vectors][32 bytes].
void unpack_levels(const SegmentView& segment, int block, uint8_t* out);
// The same for a segment with a trellis; unpack_levels goes on to it.
void unpack_trellis(const SegmentView& segment, int block, uint8_t* out);

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

void key_tile(const SideLayout& layout, const std::byte* page, float* kt, KernelScratch& scratch);
void key_tile_halves(HalfKind kind, const uint16_t* k, int tokens, int dim, float* kt);
void value_tile(const SideLayout& layout, const std::byte* page, float* v, KernelScratch& scratch);
void value_tile_halves(HalfKind kind, const uint16_t* v, int tokens, int dim, float* out);
void tile_scores(const float* q, int rows, int dim, const float* kt, float* scores);
void tile_gather(const float* weights, int rows, int tokens, const float* v, int dim, float* out);

}  // namespace kvasir::neon
