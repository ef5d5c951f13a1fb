// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The AVX-512 (F, BW, VL, DQ, VNNI) kernels behind avx512_kernels(); windows and raw segments go through the AVX2 ones.
// The rules of kernels-avx2.h hold here too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/kernels-avx2.h"
#include "attention/kernels.h"
#include "attention/page_view.h"

namespace kvasir::avx512 {

// As avx2::unpack_levels: the same bytes in the same order.
void unpack_levels(const SegmentView& segment, int block, uint8_t* out);

void prepare_query(const SideLayout& layout, const float* q, int rows, KernelScratch& scratch);
void score_page(const SideLayout& layout, const std::byte* page, const float* q, int rows, float* scores,
                KernelScratch& scratch);
void gather_page(const SideLayout& layout, const std::byte* page, const float* weights, int rows, float* out,
                 KernelScratch& scratch);
float softmax_step(float* scores, int tokens, float* max, float* sum);
void key_tile(const SideLayout& layout, const std::byte* page, float* kt, KernelScratch& scratch);
void value_tile(const SideLayout& layout, const std::byte* page, float* v, KernelScratch& scratch);
void tile_scores(const float* q, int rows, int dim, const float* kt, float* scores);
void tile_gather(const float* weights, int rows, int tokens, const float* v, int dim, float* out);

}  // namespace kvasir::avx512
