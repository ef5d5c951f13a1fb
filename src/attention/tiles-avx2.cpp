// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Pages as float tiles. A vector of levels already has the lanes a tile row wants (tokens for keys, channels for
// values): byte b of each lane, as a float, is a row of 8.
#include "attention/kernels-avx2.h"
#include "attention/lanes-avx2.h"

namespace kvasir::avx2 {

namespace {

constexpr int kLaneCount = 8;
constexpr int kOctets = kBlockTokens / kLaneCount;

// Byte b of each lane minus offset.
inline __m256 centered_byte(__m256i levels, int b, __m256i offset) {
  const __m256i byte = _mm256_and_si256(_mm256_srli_epi32(levels, 8 * b), _mm256_set1_epi32(0xff));
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(byte, offset));
}

inline __m128 load_four(const uint16_t* halves, int i, float otherwise) {
  if (halves == nullptr) return _mm_set1_ps(otherwise);
  return _mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(halves + i)));
}

// Token scales and zero points stay in registers; channels outside, so that a row of the tile is written in one go.
void key_block(const SegmentView& segment, int block, const uint8_t* levels, float* kt) {
  const __m256i offset = _mm256_set1_epi32(segment.offset);
  const int first_token = block * kBlockTokens;
  __m256 token_scale[kOctets], token_zero[kOctets];
#pragma GCC unroll 4
  for (int octet = 0; octet < kOctets; ++octet) {
    const int token = first_token + octet * kLaneCount;
    token_scale[octet] = segment.token_scales ? load_f16(segment.token_scales + token) : _mm256_set1_ps(1.0f);
    token_zero[octet] = segment.token_zeros ? load_f16(segment.token_zeros + token) : _mm256_setzero_ps();
  }
  for (int c = 0; c < segment.count; c += 4) {
    const __m128 scale = _mm_mul_ps(load_four(segment.channel_scales[block], c, 1.0f), _mm_set1_ps(segment.step));
    const __m128 plain = _mm_add_ps(load_four(segment.channel_zeros[block], c, 0.0f), load_four(segment.mean, c, 0.0f));
    alignas(16) float scales[4], plains[4];
    _mm_store_ps(scales, scale);
    _mm_store_ps(plains, plain);
    float* row = kt + (segment.first + c) * kPageTokens + first_token;
    for (int octet = 0; octet < kOctets; ++octet) {
      const __m256i x = load_bytes(levels + (c / 4 * kOctets + octet) * kVectorCodes);
#pragma GCC unroll 4
      for (int b = 0; b < 4; ++b) {
        const __m256 both = _mm256_mul_ps(token_scale[octet], _mm256_broadcast_ss(scales + b));
        const __m256 zero = _mm256_add_ps(token_zero[octet], _mm256_broadcast_ss(plains + b));
        _mm256_storeu_ps(row + b * kPageTokens + octet * kLaneCount,
                         _mm256_fmadd_ps(centered_byte(x, b, offset), both, zero));
      }
    }
  }
}

void value_block(const SegmentView& segment, int block, const uint8_t* levels, float* v, int dim) {
  const __m256i offset = _mm256_set1_epi32(segment.offset);
  const int first_token = block * kBlockTokens;
  alignas(32) float token_scale[kBlockTokens], token_zero[kBlockTokens];
  for (int t = 0; t < kBlockTokens; t += 4) {
    _mm_store_ps(token_scale + t, load_four(segment.token_scales, first_token + t, 1.0f));
    _mm_store_ps(token_zero + t, load_four(segment.token_zeros, first_token + t, 0.0f));
  }
  for (int c = 0; c < segment.count; c += kCellChannels) {
    __m256 channel_scale = _mm256_set1_ps(segment.step), plain = _mm256_setzero_ps();
    if (segment.mean) plain = load_f16(segment.mean + c);
    if (segment.channel_scales[block]) {
      channel_scale = _mm256_mul_ps(channel_scale, load_f16(segment.channel_scales[block] + c));
    }
    if (segment.channel_zeros[block]) plain = _mm256_add_ps(plain, load_f16(segment.channel_zeros[block] + c));
    float* column = v + first_token * dim + segment.first + c;
    for (int t = 0; t < kBlockTokens; t += 4) {
      const __m256i x = load_bytes(levels + c / kCellChannels * kCellCodes + t / 4 * kVectorCodes);
#pragma GCC unroll 4
      for (int b = 0; b < 4; ++b) {
        const __m256 both = _mm256_mul_ps(channel_scale, _mm256_broadcast_ss(token_scale + t + b));
        const __m256 zero = _mm256_add_ps(plain, _mm256_broadcast_ss(token_zero + t + b));
        _mm256_storeu_ps(column + (t + b) * dim, _mm256_fmadd_ps(centered_byte(x, b, offset), both, zero));
      }
    }
  }
}

// Rows of x become columns.
inline void transpose(__m256 (&x)[kLaneCount]) {
  __m256 pairs[kLaneCount], fours[kLaneCount];
#pragma GCC unroll 4
  for (int i = 0; i < kLaneCount; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < kLaneCount; i += 4) {
    fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], _MM_SHUFFLE(1, 0, 1, 0));
    fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], _MM_SHUFFLE(3, 2, 3, 2));
    fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], _MM_SHUFFLE(1, 0, 1, 0));
    fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], _MM_SHUFFLE(3, 2, 3, 2));
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    x[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
    x[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
  }
}

template <HalfKind kind>
void transpose_halves(const uint16_t* k, int tokens, int dim, const uint16_t* mean, float* kt) {
  for (int t = 0; t < kPageTokens; t += kLaneCount) {
    for (int c = 0; c < dim; c += kLaneCount) {
      __m256 x[kLaneCount];
#pragma GCC unroll 8
      for (int i = 0; i < kLaneCount; ++i) {
        x[i] = t + i < tokens ? load_halves<kind>(k + (t + i) * dim + c) : _mm256_setzero_ps();
        if (mean) x[i] = _mm256_add_ps(x[i], load_f16(mean + c));
      }
      transpose(x);
#pragma GCC unroll 8
      for (int i = 0; i < kLaneCount; ++i) _mm256_storeu_ps(kt + (c + i) * kPageTokens + t, x[i]);
    }
  }
}

template <HalfKind kind>
void widen_halves(const uint16_t* v, int tokens, int count, const uint16_t* mean, float* out, int out_stride) {
  for (int t = 0; t < tokens; ++t) {
    for (int c = 0; c < count; c += kLaneCount) {
      __m256 x = load_halves<kind>(v + t * count + c);
      if (mean) x = _mm256_add_ps(x, load_f16(mean + c));
      _mm256_storeu_ps(out + t * out_stride + c, x);
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

void raw_key_tile(const SegmentView& segment, float* kt) {
  transpose_rows(segment.half, segment.raw, kPageTokens, segment.count, segment.mean, kt + segment.first * kPageTokens);
}

void raw_value_tile(const SegmentView& segment, float* v, int dim) {
  widen_rows(segment.half, segment.raw, kPageTokens, segment.count, segment.mean, v + segment.first, dim);
}

void key_tile(const SideLayout& layout, const std::byte* page, float* kt, KernelScratch& scratch) {
  const PageView view = view_page(layout, page);
  for (int s = 0; s < view.segments; ++s) {
    const SegmentView segment = view_segment(layout, page, s, scratch.scales);
    if (segment.raw) {
      raw_key_tile(segment, kt);
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
      raw_value_tile(segment, v, view.dim);
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

}  // namespace kvasir::avx2
