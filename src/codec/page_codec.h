// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The one encoder and the one decoder, for every codec. Plain code: the definition that kernels are held to.
#pragma once

#include <cstddef>

#include "codec/page_layout.h"

namespace kvasir {

// x is [64 tokens, dim], finite. page has layout.bytes bytes. A pure function of x and the codec.
void encode_page(const SideLayout& layout, const float* x, std::byte* page);

// y^ in the mapped basis, mean included: [64 tokens, dim].
void decode_page_mapped(const SideLayout& layout, const std::byte* page, float* y);

// x^ = T^-1 y^: [64 tokens, dim].
void decode_page(const SideLayout& layout, const std::byte* page, float* x);

// y = T x and x = T^-1 y for one vector [dim], in place. T is orthogonal, so forward also maps queries (T^-T = T).
void map_forward(const Codec& codec, float* x);
void map_inverse(const Codec& codec, float* y);

// Norm of the page's mean over the root-mean-square deviation from it: how much `center` protected.
// Maps are orthogonal, so the basis doesn't matter. x is [64, dim].
float offset_ratio(int dim, const float* x);

}  // namespace kvasir
