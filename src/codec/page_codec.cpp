// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "codec/page_codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "codec/stored_scale.h"
#include "codec/trellis_segment.h"

namespace kvasir {
namespace {

uint16_t* halves(std::byte* page, size_t offset) {
  return reinterpret_cast<uint16_t*>(page + offset);
}

// The stored pair of one span, in the codec's scale format. `stride` walks the span's values.
struct Fitted {
  uint16_t scale = 0, zero = 0;
};

Fitted fit_min_max(const Codebook& book, const float* y, int count, int stride, uint8_t* codes) {
  float low = y[0], high = y[0];
  for (int i = 1; i < count; ++i) {
    low = std::min(low, y[i * stride]);
    high = std::max(high, y[i * stride]);
  }
  const float top = float(book.levels() - 1);
  const Fitted fitted{float_to_f16((high - low) / top), float_to_f16(low)};
  // Codes are chosen against the stored, rounded numbers: rounding them costs nothing but their own error.
  const float scale = f16_to_float(fitted.scale), zero = f16_to_float(fitted.zero);
  const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
  for (int i = 0; i < count; ++i)
    codes[i] = uint8_t(std::clamp(std::nearbyint((y[i * stride] - zero) * inverse), 0.0f, top));
  return fitted;
}

Fitted fit_absmax(const Codebook& book, const float* y, int count, int stride, uint8_t* codes) {
  float peak = 0;
  for (int i = 0; i < count; ++i) peak = std::max(peak, std::abs(y[i * stride]));
  const float top = float(book.levels() - 1 - book.offset);
  const Fitted fitted{float_to_f16(peak / top), 0};
  const float scale = f16_to_float(fitted.scale);
  const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
  for (int i = 0; i < count; ++i)
    codes[i] = uint8_t(float(book.offset) + std::clamp(std::nearbyint(y[i * stride] * inverse), -top, top));
  return fitted;
}

// Codes of the levels nearest to y / unit; adds to <c, y> and <c, c> of those levels.
void nearest_levels(const Codebook& book, float unit, const float* y, int count, int stride, uint8_t* codes,
                    SpanSums& sums) {
  const float inverse = 1.0f / unit;
  const int edges = int(book.edges.size());
  for (int i = 0; i < count; ++i) {
    const float u = y[i * stride] * inverse;
    int code = 0;
    for (int e = 0; e < edges; ++e) code += u >= book.edges[size_t(e)];
    codes[i] = uint8_t(code);
    const double c = book.value(code);
    sums.cross += c * double(y[i * stride]);
    sums.power += c * c;
  }
}

// Nearest levels of y / rms, then the scale that the codec asks for. An 8-bit scale is coarse, so the levels are chosen
// again against what is stored.
Fitted fit_gaussian(const Codebook& book, const Codec& codec, const float* y, int count, int stride, uint8_t* codes) {
  SpanSums sums;
  for (int i = 0; i < count; ++i) sums.energy += double(y[i * stride]) * double(y[i * stride]);
  if (sums.energy == 0) {
    std::memset(codes, 0, size_t(count));
    return {};
  }
  nearest_levels(book, float(std::sqrt(sums.energy / count)), y, count, stride, codes, sums);
  const auto scale = float(fitted_scale(codec.scale_fit, sums, count));
  const uint16_t stored = encode_scale(codec.scale_format, scale);
  if (codec.scale_format == ScaleFormat::log8)
    nearest_levels(book, decode_scale(codec.scale_format, stored), y, count, stride, codes, sums);
  return {stored, 0};
}

Fitted fit_span(const Codebook& book, const Codec& codec, const float* y, int count, int stride, uint8_t* codes) {
  switch (codec.scale_fit) {
    case ScaleFit::min_max: return fit_min_max(book, y, count, stride, codes);
    case ScaleFit::absmax: return fit_absmax(book, y, count, stride, codes);
    default: return fit_gaussian(book, codec, y, count, stride, codes);
  }
}

// codes is [64 tokens, count].
void pack_segment(const SideLayout& layout, const SegmentLayout& segment, const uint8_t* codes, std::byte* page) {
  uint8_t cell[kCellVectors * kVectorCodes];
  for (int block = 0; block < kBlocksPerPage; ++block)
    for (int c0 = 0; c0 < segment.cells(); ++c0) {
      for (int t = 0; t < kBlockTokens; ++t)
        for (int c = 0; c < kCellChannels; ++c) {
          const CodePlace place = code_place(layout.codec.side, t, c);
          cell[place.vector * kVectorCodes + place.byte] =
              codes[(block * kBlockTokens + t) * segment.count + c0 * kCellChannels + c];
        }
      pack_cell(segment.bits, cell, page + segment.cell(block, c0));
    }
}

// y is [64, mapped_dim], without the mean.
void encode_segment(const SideLayout& layout, int index, const float* y, std::byte* page) {
  const SegmentLayout& segment = layout.segments[size_t(index)];
  const Codec& codec = layout.codec;
  const int dim = layout.mapped_dim();
  if (segment.trellis) return encode_trellis_segment(layout, index, y, page);
  if (segment.raw()) {
    uint16_t* out = halves(page, segment.codes);
    for (int t = 0; t < kPageTokens; ++t)
      for (int c = 0; c < segment.count; ++c)
        out[t * segment.count + c] = float_to_half(segment.half, y[t * dim + segment.first + c]);
    return;
  }
  std::vector<uint8_t> codes(size_t(kPageTokens) * size_t(segment.count));
  if (codec.scale_span == ScaleSpan::token) {
    for (int t = 0; t < kPageTokens; ++t) {
      const Fitted fitted = fit_span(*segment.codebook, codec, y + t * dim + segment.first, segment.count, 1,
                                     codes.data() + t * segment.count);
      store_token_scale(layout, index, t, fitted.scale, page);
      if (codec.has_zero_point()) halves(page, layout.zeros)[index * kPageTokens + t] = fitted.zero;
    }
  } else {
    uint8_t column[kBlockTokens];
    for (int block = 0; block < kBlocksPerPage; ++block)
      for (int c = 0; c < segment.count; ++c) {
        const Fitted fitted = fit_span(*segment.codebook, codec, y + block * kBlockTokens * dim + segment.first + c,
                                       kBlockTokens, dim, column);
        halves(page, layout.scales)[block * dim + segment.first + c] = fitted.scale;
        if (codec.has_zero_point()) halves(page, layout.zeros)[block * dim + segment.first + c] = fitted.zero;
        for (int t = 0; t < kBlockTokens; ++t)
          codes[size_t((block * kBlockTokens + t) * segment.count + c)] = column[t];
      }
  }
  pack_segment(layout, segment, codes.data(), page);
}

void remove_mean(const SideLayout& layout, const PageMean& mean, float* y, std::byte* page) {
  const int dim = layout.mapped_dim();
  for (int c = 0; c < layout.mean_dim(); ++c) {
    halves(page, layout.mean)[c] = mean[size_t(c)];
    for (int t = 0; t < kPageTokens; ++t) y[t * dim + c] -= f16_to_float(mean[size_t(c)]);
  }
}

float stored_scale(const SideLayout& layout, int index, const std::byte* page, int t, int channel) {
  if (layout.codec.scale_span == ScaleSpan::channel)
    return f16_to_float(layout.channel_scales(page, t / kBlockTokens)[channel]);
  const ScaleFormat format = layout.codec.scale_format;
  return decode_scale(
      format, format == ScaleFormat::log8 ? layout.log_scales(page, index)[t] : layout.token_scales(page, index)[t]);
}

float decoded(const SideLayout& layout, int index, const std::byte* page, int t, int c, float value) {
  const SegmentLayout& segment = layout.segments[size_t(index)];
  const bool by_token = layout.codec.scale_span == ScaleSpan::token;
  const int block = t / kBlockTokens;
  const float scale = stored_scale(layout, index, page, t, segment.first + c);
  const float zero = !layout.codec.has_zero_point()
                         ? 0.0f
                         : f16_to_float(by_token ? layout.token_zeros(page, index)[t]
                                                 : layout.channel_zeros(page, block)[segment.first + c]);
  return value * scale + zero;
}

// Writes the segment's channels of y [64, mapped_dim], without the mean.
void decode_segment(const SideLayout& layout, int index, const std::byte* page, float* y) {
  const SegmentLayout& segment = layout.segments[size_t(index)];
  const int dim = layout.mapped_dim();
  if (segment.raw()) {
    const auto* in = reinterpret_cast<const uint16_t*>(page + segment.codes);
    for (int t = 0; t < kPageTokens; ++t)
      for (int c = 0; c < segment.count; ++c)
        y[t * dim + segment.first + c] = half_to_float(segment.half, in[t * segment.count + c]);
    return;
  }
  uint8_t cell[kCellVectors * kVectorCodes];
  for (int block = 0; block < kBlocksPerPage; ++block)
    for (int c0 = 0; c0 < segment.cells(); ++c0) {
      if (segment.trellis) {
        unpack_trellis_cell(*segment.trellis, page + segment.codes, kBlocksPerPage * segment.cells(),
                            block * segment.cells() + c0, cell);
      } else {
        unpack_cell(segment.bits, page + segment.cell(block, c0), cell);
      }
      for (int t = 0; t < kBlockTokens; ++t)
        for (int c = 0; c < kCellChannels; ++c) {
          const CodePlace place = code_place(layout.codec.side, t, c);
          const int token = block * kBlockTokens + t, channel = c0 * kCellChannels + c;
          const int code = cell[place.vector * kVectorCodes + place.byte];
          const float value = segment.trellis ? segment.trellis->value(code) : segment.codebook->value(code);
          y[token * dim + segment.first + channel] = decoded(layout, index, page, token, channel, value);
        }
    }
}

// y [64, mapped_dim] holds the rotated vectors without the mean; what earlier segments made of them is in the page.
void encode_signs(const SideLayout& layout, int index, const ChannelMap& map, const float* y, std::byte* page) {
  const SegmentLayout& segment = layout.segments[size_t(index)];
  const int dim = layout.dim(), stride = layout.mapped_dim();
  const float factor = float(layout.sign_scale);
  std::vector<float> decoded(size_t(kPageTokens) * size_t(stride), 0.0f), residual(size_t(dim), 0.0f);
  for (int i = 0; i < index; ++i) decode_segment(layout, i, page, decoded.data());
  std::vector<uint8_t> codes(size_t(kPageTokens) * size_t(dim));
  for (int t = 0; t < kPageTokens; ++t) {
    double energy = 0;
    for (int c = 0; c < dim; ++c) {
      const float rest = y[t * stride + c] - decoded[size_t(t * stride + c)];
      residual[size_t(c)] = rest;
      energy += double(rest) * double(rest);
    }
    map.project(residual.data(), residual.data());
    for (int c = 0; c < dim; ++c) codes[size_t(t * dim + c)] = residual[size_t(c)] >= 0;
    halves(page, layout.scales)[index * kPageTokens + t] = float_to_f16(factor * float(std::sqrt(energy)));
  }
  pack_segment(layout, segment, codes.data(), page);
}

}  // namespace

void encode_page(const SideLayout& layout, int head, const float* x, std::byte* page) {
  encode_page(layout, head, loudest_channels(layout, x), x, page);
}

void encode_page(const SideLayout& layout, int head, const ChannelOrder& order, const float* x, std::byte* page) {
  encode_page(layout, head, order, mean_of(layout, head, order, x, kPageTokens), x, page);
}

PageMean page_mean(const SideLayout& layout, const std::byte* page) {
  if (!layout.codec.center) return {};
  return {layout.means(page), layout.means(page) + layout.mean_dim()};
}

PageMean mean_of(const SideLayout& layout, int head, const ChannelOrder& order, const float* x, size_t tokens) {
  if (!layout.codec.center) return {};
  const ChannelMap map(layout, head, order);
  std::vector<float> y(size_t(layout.mapped_dim()), 0.0f);
  std::vector<double> sum(size_t(layout.mean_dim()), 0.0);
  for (size_t t = 0; t < tokens; ++t) {
    map.rotate(x + t * size_t(layout.dim()), y.data());
    for (size_t c = 0; c < sum.size(); ++c) sum[c] += double(y[c]);
  }
  PageMean mean;
  for (const double total : sum) mean.push_back(float_to_f16(float(total / double(std::max<size_t>(1, tokens)))));
  return mean;
}

void encode_page(const SideLayout& layout, int head, const ChannelOrder& order, const PageMean& mean, const float* x,
                 std::byte* page) {
  const int dim = layout.dim(), stride = layout.mapped_dim();
  const ChannelMap map(layout, head, order);
  std::vector<float> y(size_t(kPageTokens) * size_t(stride), 0.0f);
  for (int t = 0; t < kPageTokens; ++t) map.rotate(x + t * dim, y.data() + t * stride);
  if (layout.codec.center) remove_mean(layout, mean, y.data(), page);
  if (layout.fitted)
    for (int t = 0; t < kPageTokens; ++t) (*layout.fitted)[size_t(head)].clip_outliers(y.data() + t * stride);
  if (!order.empty()) std::memcpy(page + layout.order, order.data(), order.size());
  for (int i = 0; i < int(layout.segments.size()); ++i) {
    if (layout.segments[size_t(i)].signs) {
      encode_signs(layout, i, map, y.data(), page);
    } else {
      encode_segment(layout, i, y.data(), page);
    }
  }
}

void decode_page_mapped(const SideLayout& layout, const std::byte* page, float* y) {
  for (int i = 0; i < int(layout.segments.size()); ++i) decode_segment(layout, i, page, y);
  if (!layout.codec.center) return;
  for (int t = 0; t < kPageTokens; ++t)
    for (int c = 0; c < layout.mean_dim(); ++c) y[t * layout.mapped_dim() + c] += f16_to_float(layout.means(page)[c]);
}

void decode_page(const SideLayout& layout, int head, const std::byte* page, float* x) {
  const ChannelMap map(layout, head, channel_order(layout, page));
  const int dim = layout.dim();
  std::vector<float> y(size_t(kPageTokens) * size_t(layout.mapped_dim()));
  decode_page_mapped(layout, page, y.data());
  for (int t = 0; t < kPageTokens; ++t) {
    map.inverse(y.data() + t * layout.mapped_dim(), x + t * dim);
    if (const float* mean = map.mean())
      for (int c = 0; c < dim; ++c) x[t * dim + c] += mean[c];
  }
}

float offset_ratio(int dim, const float* x) {
  double offset = 0, spread = 0;
  for (int c = 0; c < dim; ++c) {
    double sum = 0, square = 0;
    for (int t = 0; t < kPageTokens; ++t) {
      sum += double(x[t * dim + c]);
      square += double(x[t * dim + c]) * double(x[t * dim + c]);
    }
    const double mean = sum / kPageTokens;
    offset += mean * mean;
    spread += std::max(0.0, square / kPageTokens - mean * mean);
  }
  return spread > 0 ? float(std::sqrt(offset / spread)) : 0.0f;
}

}  // namespace kvasir
