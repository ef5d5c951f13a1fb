// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The one encoder and the one decoder, for every codec. Plain code: the definition that kernels are held to.
#pragma once

#include <cstddef>

#include "codec/channel_map.h"
#include "codec/page_layout.h"

namespace kvasir {

// x is [64 tokens, dim], finite. page has layout.bytes bytes. A pure function of x, the codec and the channel order,
// which all pages of a head share; without one the page decides it. `head`: the KV head, which fitted maps differ by.
void encode_page(const SideLayout& layout, int head, const float* x, std::byte* page);
void encode_page(const SideLayout& layout, int head, const ChannelOrder& order, const float* x, std::byte* page);

// The mean that a page's vectors are stored without (Codec::center), f16 in the mapped basis; empty for other codecs.
using PageMean = std::vector<uint16_t>;
PageMean page_mean(const SideLayout& layout, const std::byte* page);  // as written
// Of any number of vectors [tokens, dim].
PageMean mean_of(const SideLayout& layout, int head, const ChannelOrder& order, const float* x, size_t tokens);
// With this mean in place of the page's own: what was decoded from pages of one mean and order is encoded to the same
// codes again, whichever pages it comes to.
void encode_page(const SideLayout& layout, int head, const ChannelOrder& order, const PageMean& mean, const float* x,
                 std::byte* page);

// y^ of the first so many segments, without the mean: their channels of y [64 tokens, mapped_dim].
void decode_segments(const SideLayout& layout, int segments, const std::byte* page, float* y);

// y^ in the mapped basis, the page's mean included: [64 tokens, mapped_dim].
void decode_page_mapped(const SideLayout& layout, const std::byte* page, float* y);

// x^ = T^-1 y^, and the mean of a fitted map: [64 tokens, dim].
void decode_page(const SideLayout& layout, int head, const std::byte* page, float* x);

// Norm of the page's mean over the root-mean-square deviation from it: how much `center` protected.
// Measured in the model's own basis. x is [64, dim].
float offset_ratio(int dim, const float* x);

}  // namespace kvasir
