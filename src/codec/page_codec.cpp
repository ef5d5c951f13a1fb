// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "codec/page_codec.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "codec/stored_scale.h"
#include "codec/trellis_segment.h"

namespace kvasir {
namespace {

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

}  // namespace

PageMean page_mean(const SideLayout& layout, const std::byte* page) {
  if (!layout.codec.center) return {};
  return {layout.means(page), layout.means(page) + layout.mean_dim()};
}

void decode_segments(const SideLayout& layout, int segments, const std::byte* page, float* y) {
  for (int i = 0; i < segments; ++i) decode_segment(layout, i, page, y);
}

void decode_page_mapped(const SideLayout& layout, const std::byte* page, float* y) {
  decode_segments(layout, int(layout.segments.size()), page, y);
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
  const ChannelSums sums = channel_sums(dim, x);
  double offset = 0, spread = 0;
  for (int c = 0; c < dim; ++c) {
    const double mean = sums.sum[size_t(c)] / kPageTokens;
    offset += mean * mean;
    spread += std::max(0.0, sums.square[size_t(c)] / kPageTokens - mean * mean);
  }
  return spread > 0 ? float(std::sqrt(offset / spread)) : 0.0f;
}

}  // namespace kvasir
