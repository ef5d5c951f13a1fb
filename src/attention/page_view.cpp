// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "attention/page_view.h"

#include "quant/log_scale.h"

namespace kvasir {

SegmentView view_segment(const SideLayout& layout, int segment) {
  const SegmentLayout& from = layout.segments[size_t(segment)];
  SegmentView view{};
  view.first = from.first;
  view.count = from.count;
  view.bits = from.bits;
  view.half = from.half;
  view.step = 1.0f;
  if (from.raw()) return view;
  if (from.trellis) {
    view.trellis = from.trellis;
    view.offset = from.trellis->offset;
    view.step = from.trellis->step;
  } else {
    view.level = from.codebook->identity ? nullptr : from.codebook->level.data();
    view.offset = from.codebook->offset;
    view.step = from.codebook->step;
  }
  return view;
}

SegmentView view_segment(const SideLayout& layout, const std::byte* page, int segment,
                         uint16_t (&widened)[kPageTokens]) {
  const SegmentLayout& from = layout.segments[size_t(segment)];
  SegmentView view = view_segment(layout, segment);
  if (layout.codec.center && !from.signs) view.mean = layout.means(page) + from.first;
  if (from.raw()) {
    view.raw = reinterpret_cast<const uint16_t*>(page + from.codes);
    return view;
  }
  view.codes = page + from.codes;
  const bool zeros = layout.codec.has_zero_point();
  if (layout.codec.scale_span == ScaleSpan::token) {
    view.token_scales = layout.token_scales(page, segment);
    if (layout.codec.scale_format == ScaleFormat::log8) {
      widen_log_scales(layout.log_scales(page, segment), kPageTokens, widened);
      view.token_scales = widened;
    }
    if (zeros) view.token_zeros = layout.token_zeros(page, segment);
  } else if (layout.codec.scale_span == ScaleSpan::channel) {
    for (int block = 0; block < kBlocksPerPage; ++block) {
      view.channel_scales[block] = layout.channel_scales(page, block) + from.first;
      if (zeros) view.channel_zeros[block] = layout.channel_zeros(page, block) + from.first;
    }
  }
  return view;
}

PageView view_page(const SideLayout& layout) {
  PageView view{};
  view.side = layout.codec.side;
  view.dim = layout.mapped_dim();
  view.segments = int(layout.segments.size());
  return view;
}

PageView view_page(const SideLayout& layout, const std::byte* page) {
  PageView view = view_page(layout);
  if (layout.codec.center) view.mean = layout.means(page);
  view.mean_dim = layout.mean_dim();
  return view;
}

}  // namespace kvasir
