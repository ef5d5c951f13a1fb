// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Pages as float tiles. A vector of levels already has the lanes a tile row wants (tokens for keys, channels for
// values): byte b of each lane, as a float, is 4 numbers of a row.
#include "attention/kernels-neon.h"
#include "attention/lanes-neon.h"

namespace kvasir::neon {

namespace {

constexpr int kQuads = kBlockTokens / kLaneCount;

// Byte B of each lane minus offset. A table's index beyond its end yields 0, so one look-up also widens.
template <int B>
inline float32x4_t centered_byte(uint8x16_t levels, float32x4_t offset) {
  constexpr uint8_t none = 255;
  static constexpr uint8_t places[16] = {B,     none, none, none, B + 4,  none, none, none,
                                         B + 8, none, none, none, B + 12, none, none, none};
  return vsubq_f32(vcvtq_f32_u32(vreinterpretq_u32_u8(vqtbl1q_u8(levels, vld1q_u8(places)))), offset);
}

inline float32x4_t load_four(const uint16_t* halves, int i, float otherwise) {
  return halves ? load_f16(halves + i) : vdupq_n_f32(otherwise);
}

struct FourScales {
  float32x4_t scale, zero;
};

// Byte B of the lanes of `levels` at row B of a tile: the lanes have scales of their own, and so have the rows.
template <int B>
inline void write_row(uint8x16_t levels, float32x4_t offset, const FourScales& lanes, const FourScales& rows, float* to,
                      ptrdiff_t stride) {
  const float32x4_t scale = vmulq_laneq_f32(lanes.scale, rows.scale, B);
  const float32x4_t zero = vaddq_f32(lanes.zero, vdupq_laneq_f32(rows.zero, B));
  vst1q_f32(to + B * stride, vfmaq_f32(zero, centered_byte<B>(levels, offset), scale));
}

inline void write_rows(uint8x16_t levels, float32x4_t offset, const FourScales& lanes, const FourScales& rows,
                       float* to, ptrdiff_t stride) {
  write_row<0>(levels, offset, lanes, rows, to, stride);
  write_row<1>(levels, offset, lanes, rows, to, stride);
  write_row<2>(levels, offset, lanes, rows, to, stride);
  write_row<3>(levels, offset, lanes, rows, to, stride);
}

inline FourScales token_terms(const SegmentView& segment, int token) {
  return {load_four(segment.token_scales, token, 1.0f), load_four(segment.token_zeros, token, 0.0f)};
}

inline FourScales channel_terms(const SegmentView& segment, int block, int channel) {
  return {vmulq_n_f32(load_four(segment.channel_scales[block], channel, 1.0f), segment.step),
          vaddq_f32(load_four(segment.channel_zeros[block], channel, 0.0f), load_four(segment.mean, channel, 0.0f))};
}

// Channels outside, so that a row of the tile is written in one go.
void key_block(const SegmentView& segment, int block, const uint8_t* levels, float* kt) {
  const float32x4_t offset = vdupq_n_f32(float(segment.offset));
  const int first_token = block * kBlockTokens;
  FourScales tokens[kQuads];
  for (int quad = 0; quad < kQuads; ++quad) tokens[quad] = token_terms(segment, first_token + quad * kLaneCount);
  for (int c = 0; c < segment.count; c += kLaneCount, levels += kQuads * 16) {
    const FourScales channels = channel_terms(segment, block, c);
    float* row = kt + (segment.first + c) * kPageTokens + first_token;
    for (int quad = 0; quad < kQuads; ++quad) {
      write_rows(vld1q_u8(levels + quad * 16), offset, tokens[quad], channels, row + quad * kLaneCount, kPageTokens);
    }
  }
}

void value_block(const SegmentView& segment, int block, const uint8_t* levels, float* v, int dim) {
  const float32x4_t offset = vdupq_n_f32(float(segment.offset));
  const int first_token = block * kBlockTokens;
  FourScales tokens[kQuads];
  for (int quad = 0; quad < kQuads; ++quad) tokens[quad] = token_terms(segment, first_token + quad * kLaneCount);
  for (int c = 0; c < segment.count; c += kCellChannels, levels += kCellCodes) {
    const FourScales low = channel_terms(segment, block, c), high = channel_terms(segment, block, c + kLaneCount);
    float* column = v + first_token * dim + segment.first + c;
    for (int quad = 0; quad < kQuads; ++quad, column += kLaneCount * dim) {
      const Vector x = load_vector(levels + quad * kVectorCodes);
      write_rows(x.half[0], offset, low, tokens[quad], column, dim);
      write_rows(x.half[1], offset, high, tokens[quad], column + kLaneCount, dim);
    }
  }
}

// Rows of x become columns.
inline void transpose(float32x4_t (&x)[kLaneCount]) {
  const float32x4_t even01 = vtrn1q_f32(x[0], x[1]), odd01 = vtrn2q_f32(x[0], x[1]);
  const float32x4_t even23 = vtrn1q_f32(x[2], x[3]), odd23 = vtrn2q_f32(x[2], x[3]);
  x[0] = vcombine_f32(vget_low_f32(even01), vget_low_f32(even23));
  x[1] = vcombine_f32(vget_low_f32(odd01), vget_low_f32(odd23));
  x[2] = vcombine_f32(vget_high_f32(even01), vget_high_f32(even23));
  x[3] = vcombine_f32(vget_high_f32(odd01), vget_high_f32(odd23));
}

template <HalfKind kind>
void transpose_halves(const uint16_t* k, int tokens, int dim, const uint16_t* mean, float* kt) {
  for (int t = 0; t < kPageTokens; t += kLaneCount) {
    for (int c = 0; c < dim; c += kLaneCount) {
      float32x4_t x[kLaneCount];
#pragma GCC unroll 4
      for (int i = 0; i < kLaneCount; ++i) {
        x[i] = t + i < tokens ? load_halves<kind>(k + (t + i) * dim + c) : vdupq_n_f32(0.0f);
        if (mean) x[i] = vaddq_f32(x[i], load_f16(mean + c));
      }
      transpose(x);
#pragma GCC unroll 4
      for (int i = 0; i < kLaneCount; ++i) vst1q_f32(kt + (c + i) * kPageTokens + t, x[i]);
    }
  }
}

template <HalfKind kind>
void widen_halves(const uint16_t* v, int tokens, int count, const uint16_t* mean, float* out, int out_stride) {
  for (int t = 0; t < tokens; ++t) {
    for (int c = 0; c < count; c += kLaneCount) {
      float32x4_t x = load_halves<kind>(v + t * count + c);
      if (mean) x = vaddq_f32(x, load_f16(mean + c));
      vst1q_f32(out + t * out_stride + c, x);
    }
  }
}

void transpose_rows(HalfKind kind, const uint16_t* k, int tokens, int dim, const uint16_t* mean, float* kt) {
  if (kind == HalfKind::f16) {
    transpose_halves<HalfKind::f16>(k, tokens, dim, mean, kt);
  } else {
    transpose_halves<HalfKind::bf16>(k, tokens, dim, mean, kt);
  }
}

void widen_rows(HalfKind kind, const uint16_t* v, int tokens, int count, const uint16_t* mean, float* out,
                int out_stride) {
  if (kind == HalfKind::f16) {
    widen_halves<HalfKind::f16>(v, tokens, count, mean, out, out_stride);
  } else {
    widen_halves<HalfKind::bf16>(v, tokens, count, mean, out, out_stride);
  }
}

}  // namespace

void key_tile(const SideLayout& layout, const std::byte* page, float* kt, KernelScratch& scratch) {
  const PageView view = view_page(layout, page);
  for (int s = 0; s < view.segments; ++s) {
    const SegmentView segment = view_segment(layout, page, s, scratch.scales);
    if (segment.raw) {
      transpose_rows(segment.half, segment.raw, kPageTokens, segment.count, segment.mean,
                     kt + segment.first * kPageTokens);
      continue;
    }
    for (int block = 0; block < kBlocksPerPage; ++block) {
      unpack_levels(segment, block, scratch.levels);
      key_block(segment, block, scratch.levels, kt);
    }
  }
}

void value_tile(const SideLayout& layout, const std::byte* page, float* v, KernelScratch& scratch) {
  const PageView view = view_page(layout, page);
  for (int s = 0; s < view.segments; ++s) {
    const SegmentView segment = view_segment(layout, page, s, scratch.scales);
    if (segment.raw) {
      widen_rows(segment.half, segment.raw, kPageTokens, segment.count, segment.mean, v + segment.first, view.dim);
      continue;
    }
    for (int block = 0; block < kBlocksPerPage; ++block) {
      unpack_levels(segment, block, scratch.levels);
      value_block(segment, block, scratch.levels, v, view.dim);
    }
  }
}

void key_tile_halves(HalfKind kind, const uint16_t* k, int tokens, int dim, float* kt) {
  transpose_rows(kind, k, tokens, dim, nullptr, kt);
}

void value_tile_halves(HalfKind kind, const uint16_t* v, int tokens, int dim, float* out) {
  widen_rows(kind, v, tokens, dim, nullptr, out, dim);
}

}  // namespace kvasir::neon
