// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// encode_page: all of a page's tokens side by side, in columns [channels][64], from the map to the codes.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "codec/code_cells.h"
#include "codec/half_rows.h"
#include "codec/page_codec.h"
#include "codec/stored_scale.h"
#include "codec/token_fits.h"
#include "codec/trellis_segment.h"
#include "transform/page_columns.h"

namespace kvasir {
namespace {

static_assert(kColumns == kPageTokens);

// What a thread keeps from page to page. Columns all, codes too.
struct Room {
  std::vector<float> x, y, largest;
  std::vector<uint8_t> codes;
};

uint16_t* halves(std::byte* page, size_t offset) {
  return reinterpret_cast<uint16_t*>(page + offset);
}

// 1 / scale, or 0 where there is none to divide by.
float inverse_of(float scale) {
  return scale > 0 ? 1.0f / scale : 0.0f;
}

// Codes are chosen against the stored, rounded numbers: rounding them costs nothing but their own error.
void fit_min_max(const Codebook& book, const float* y, int channels, uint16_t* scales, uint16_t* zeros,
                 uint8_t* codes) {
  const TokenFits& fits = token_fits();
  float low[kPageTokens], high[kPageTokens], zero[kPageTokens], inverse[kPageTokens];
  fits.extremes(y, channels, low, high);
  const float top = float(book.levels() - 1);
  for (int t = 0; t < kPageTokens; ++t) {
    scales[t] = float_to_f16((high[t] - low[t]) / top);
    zeros[t] = float_to_f16(low[t]);
    zero[t] = f16_to_float(zeros[t]);
    inverse[t] = inverse_of(f16_to_float(scales[t]));
  }
  fits.round_levels({0, top, 0}, zero, inverse, y, channels, codes);
}

void fit_absmax(const Codebook& book, const float* y, int channels, uint16_t* scales, uint8_t* codes) {
  const TokenFits& fits = token_fits();
  float low[kPageTokens], high[kPageTokens], inverse[kPageTokens];
  fits.extremes(y, channels, low, high);
  const float top = float(book.levels() - 1 - book.offset), zero[kPageTokens] = {};
  for (int t = 0; t < kPageTokens; ++t) {
    scales[t] = float_to_f16(std::max(std::abs(low[t]), std::abs(high[t])) / top);
    inverse[t] = inverse_of(f16_to_float(scales[t]));
  }
  fits.round_levels({-top, top, book.offset}, zero, inverse, y, channels, codes);
}

// Nearest levels of y / rms, then the scale that the codec asks for. An 8-bit scale is coarse, so the levels are chosen
// again against what is stored.
void fit_gaussian(const Codebook& book, const Codec& codec, const float* y, int channels, uint16_t* scales,
                  uint8_t* codes) {
  // Nothing times infinity is NaN, which gets code 0: what a token without energy has.
  constexpr float kNone = std::numeric_limits<float>::infinity();
  const TokenFits& fits = token_fits();
  float values[1 << 8], inverse[kPageTokens];
  for (int code = 0; code < book.levels(); ++code) values[code] = book.value(code);
  const LevelTable table{book.levels() - 1, book.edges.data(), values};
  double energy[kPageTokens], cross[kPageTokens], power[kPageTokens];
  fits.energies(y, channels, energy);
  for (int t = 0; t < kPageTokens; ++t)
    inverse[t] = energy[t] == 0 ? kNone : 1.0f / float(std::sqrt(energy[t] / channels));
  fits.nearest_levels(table, inverse, y, channels, codes, cross, power);
  for (int t = 0; t < kPageTokens; ++t) {
    scales[t] = 0;
    if (energy[t] == 0) continue;
    const SpanSums sums{energy[t], cross[t], power[t]};
    scales[t] = encode_scale(codec.scale_format, float(fitted_scale(codec.scale_fit, sums, channels)));
    inverse[t] = 1.0f / decode_scale(codec.scale_format, scales[t]);
  }
  if (codec.scale_format == ScaleFormat::log8) fits.nearest_levels(table, inverse, y, channels, codes, cross, power);
}

void encode_tokens(const SideLayout& layout, int index, const float* y, uint8_t* codes, std::byte* page) {
  const SegmentLayout& segment = layout.segments[size_t(index)];
  const Codec& codec = layout.codec;
  uint16_t scales[kPageTokens], zeros[kPageTokens];
  switch (codec.scale_fit) {
    case ScaleFit::min_max: fit_min_max(*segment.codebook, y, segment.count, scales, zeros, codes); break;
    case ScaleFit::absmax: fit_absmax(*segment.codebook, y, segment.count, scales, codes); break;
    default: fit_gaussian(*segment.codebook, codec, y, segment.count, scales, codes);
  }
  for (int t = 0; t < kPageTokens; ++t) store_token_scale(layout, index, t, scales[t], page);
  if (codec.has_zero_point()) std::copy_n(zeros, kPageTokens, halves(page, layout.zeros) + index * kPageTokens);
}

// Least and most of 32 values. Eight at a time, which are vectors to the compiler.
std::pair<float, float> extremes_of_block(const float* y) {
  constexpr int kAtOnce = 8;
  float low[kAtOnce], high[kAtOnce];
  std::copy_n(y, kAtOnce, low);
  std::copy_n(y, kAtOnce, high);
  for (int t = kAtOnce; t < kBlockTokens; t += kAtOnce)
    for (int i = 0; i < kAtOnce; ++i) {
      low[i] = y[t + i] < low[i] ? y[t + i] : low[i];
      high[i] = y[t + i] > high[i] ? y[t + i] : high[i];
    }
  return {*std::min_element(low, low + kAtOnce), *std::max_element(high, high + kAtOnce)};
}

// Scale and zero point of each channel and block of 32 tokens.
void encode_channels(const SideLayout& layout, const SegmentLayout& segment, const float* y, uint8_t* codes,
                     std::byte* page) {
  const TokenFits& fits = token_fits();
  const float top = float(segment.codebook->levels() - 1);
  for (int c = 0; c < segment.count; ++c, y += kPageTokens, codes += kPageTokens) {
    float zero[kPageTokens], inverse[kPageTokens];
    for (int block = 0; block < kBlocksPerPage; ++block) {
      const auto [low, high] = extremes_of_block(y + block * kBlockTokens);
      const size_t at = size_t(block * layout.dim() + segment.first + c);
      const uint16_t scale = float_to_f16((high - low) / top), stored = float_to_f16(low);
      halves(page, layout.scales)[at] = scale;
      halves(page, layout.zeros)[at] = stored;
      std::fill_n(zero + block * kBlockTokens, kBlockTokens, f16_to_float(stored));
      std::fill_n(inverse + block * kBlockTokens, kBlockTokens, inverse_of(f16_to_float(scale)));
    }
    fits.round_levels({0, top, 0}, zero, inverse, y, 1, codes);
  }
}

// y is the segment's channels, without the mean.
void encode_segment(const SideLayout& layout, int index, const float* y, Room& room, std::byte* page) {
  const SegmentLayout& segment = layout.segments[size_t(index)];
  if (segment.trellis) return encode_trellis_segment(layout, index, y, page);
  if (segment.raw()) {
    uint16_t* out = halves(page, segment.codes);
    for (int t = 0; t < kPageTokens; ++t)
      for (int c = 0; c < segment.count; ++c)
        out[t * segment.count + c] = float_to_half(segment.half, y[c * kPageTokens + t]);
    return;
  }
  room.codes.resize(size_t(segment.count) * kPageTokens);
  if (layout.codec.scale_span == ScaleSpan::token) {
    encode_tokens(layout, index, y, room.codes.data(), page);
  } else {
    encode_channels(layout, segment, y, room.codes.data(), page);
  }
  pack_columns(layout.codec.side, segment, room.codes.data(), page);
}

// y holds the rotated vectors without the mean; what earlier segments made of them is in the page.
void encode_signs(const SideLayout& layout, int index, const ChannelMap& map, const float* y, std::byte* page) {
  const int dim = layout.dim(), stride = layout.mapped_dim();
  const float factor = float(layout.sign_scale);
  std::vector<float> decoded(size_t(kPageTokens) * size_t(stride), 0.0f), rest(decoded.size()), signs(decoded.size());
  decode_segments(layout, index, page, decoded.data());
  page_columns().to_columns(decoded.data(), stride, rest.data());
  const int values = dim * kPageTokens;
  for (int i = 0; i < values; ++i) rest[size_t(i)] = y[i] - rest[size_t(i)];
  double energy[kPageTokens];
  token_fits().energies(rest.data(), dim, energy);
  for (int t = 0; t < kPageTokens; ++t)
    halves(page, layout.scales)[index * kPageTokens + t] = float_to_f16(factor * float(std::sqrt(energy[t])));
  map.project(page_columns(), rest.data(), signs.data());
  std::vector<uint8_t> codes(static_cast<size_t>(values));
  for (int i = 0; i < values; ++i) codes[size_t(i)] = signs[size_t(i)] >= 0;
  pack_columns(layout.codec.side, layout.segments[size_t(index)], codes.data(), page);
}

PageMean stored_mean(const std::vector<double>& sums, size_t tokens) {
  PageMean mean;
  for (const double sum : sums) mean.push_back(float_to_f16(float(sum / double(std::max<size_t>(1, tokens)))));
  return mean;
}

void remove_mean(const SideLayout& layout, const PageMean& mean, float* y, std::byte* page) {
  for (int c = 0; c < layout.mean_dim(); ++c) {
    halves(page, layout.mean)[c] = mean[size_t(c)];
    const float value = f16_to_float(mean[size_t(c)]);
    for (int t = 0; t < kPageTokens; ++t) y[c * kPageTokens + t] -= value;
  }
}

// With the page's own mean if none is given.
void encode(const SideLayout& layout, int head, const ChannelOrder& order, const PageMean* given, const float* x,
            std::byte* page) {
  const int dim = layout.dim(), mapped = layout.mapped_dim();
  if (layout.raw() && layout.codec.map == MapKind::identity && !layout.codec.center) {
    store_halves(layout.segments[0].half, x, size_t(kPageTokens) * size_t(dim), halves(page, layout.segments[0].codes));
    return;
  }
  thread_local Room room;
  room.x.resize(size_t(dim) * kPageTokens);
  room.y.resize(size_t(mapped) * kPageTokens);
  float* y = room.y.data();
  page_columns().to_columns(x, dim, room.x.data());
  const ChannelMap map(layout, head, order);
  map.rotate(page_columns(), room.x.data(), y);
  if (layout.codec.center) {
    std::vector<double> sums(size_t(layout.mean_dim()), 0.0);
    if (given == nullptr) token_fits().channel_sums(y, layout.mean_dim(), sums.data());
    remove_mean(layout, given != nullptr ? *given : stored_mean(sums, kPageTokens), y, page);
  }
  if (layout.fitted)
    if (const int rank = (*layout.fitted)[size_t(head)].clip_rank(); rank > 0) {
      room.largest.resize(size_t(rank) * kPageTokens);
      token_fits().clip(rank, y, mapped, room.largest.data());
    }
  if (!order.empty()) std::memcpy(page + layout.order, order.data(), order.size());
  for (int i = 0; i < int(layout.segments.size()); ++i) {
    if (layout.segments[size_t(i)].signs) {
      encode_signs(layout, i, map, y, page);
    } else {
      encode_segment(layout, i, y + layout.segments[size_t(i)].first * kPageTokens, room, page);
    }
  }
}

}  // namespace

void encode_page(const SideLayout& layout, int head, const float* x, std::byte* page) {
  encode(layout, head, loudest_channels(layout, x), nullptr, x, page);
}

void encode_page(const SideLayout& layout, int head, const ChannelOrder& order, const float* x, std::byte* page) {
  encode(layout, head, order, nullptr, x, page);
}

void encode_page(const SideLayout& layout, int head, const ChannelOrder& order, const PageMean& mean, const float* x,
                 std::byte* page) {
  encode(layout, head, order, &mean, x, page);
}

PageMean mean_of(const SideLayout& layout, int head, const ChannelOrder& order, const float* x, size_t tokens) {
  if (!layout.codec.center) return {};
  const ChannelMap map(layout, head, order);
  std::vector<float> y(size_t(layout.mapped_dim()), 0.0f);
  std::vector<double> sums(size_t(layout.mean_dim()), 0.0);
  for (size_t t = 0; t < tokens; ++t) {
    map.rotate(x + t * size_t(layout.dim()), y.data());
    for (size_t c = 0; c < sums.size(); ++c) sums[c] += double(y[c]);
  }
  return stored_mean(sums, tokens);
}

}  // namespace kvasir
