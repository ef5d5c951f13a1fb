// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Pages as float tiles, 16 lanes at a time: byte b of each lane of a vector of levels, as a float, is part of a row.
#include "attention/kernels-avx2.h"
#include "attention/kernels-avx512.h"
#include "attention/lanes-avx512.h"

namespace kvasir::avx512 {

namespace {

constexpr int kLaneCount = 16;

// Byte b of each lane minus offset.
inline __m512 centered_byte(__m512i levels, int b, __m512i offset) {
  const __m512i byte = _mm512_and_si512(_mm512_srli_epi32(levels, unsigned(8 * b)), _mm512_set1_epi32(0xff));
  return _mm512_cvtepi32_ps(_mm512_sub_epi32(byte, offset));
}

inline float half_or(const uint16_t* halves, int i, float otherwise) {
  return halves ? _cvtsh_ss(halves[i]) : otherwise;
}

// Token scales and zero points stay in registers; a channel is two vectors of 16 tokens.
void key_block(const SegmentView& segment, int block, const uint8_t* levels, float* kt) {
  const __m512i offset = _mm512_set1_epi32(segment.offset);
  const int first_token = block * kBlockTokens;
  __m512 token_scale[2], token_zero[2];
#pragma GCC unroll 2
  for (int s = 0; s < 2; ++s) {
    const int token = first_token + s * kLaneCount;
    token_scale[s] = segment.token_scales ? load_f16(segment.token_scales + token) : _mm512_set1_ps(1.0f);
    token_zero[s] = segment.token_zeros ? load_f16(segment.token_zeros + token) : _mm512_setzero_ps();
  }
  for (int c = 0; c < segment.count; c += 4) {
    const __m512i x[2] = {load_bytes(levels + c * kVectorCodes), load_bytes(levels + c * kVectorCodes + 64)};
    float* row = kt + (segment.first + c) * kPageTokens + first_token;
#pragma GCC unroll 4
    for (int b = 0; b < 4; ++b) {
      const float scale = half_or(segment.channel_scales[block], c + b, 1.0f) * segment.step;
      const float plain = half_or(segment.channel_zeros[block], c + b, 0.0f) + half_or(segment.mean, c + b, 0.0f);
#pragma GCC unroll 2
      for (int s = 0; s < 2; ++s) {
        const __m512 both = _mm512_mul_ps(token_scale[s], _mm512_set1_ps(scale));
        const __m512 zero = _mm512_add_ps(token_zero[s], _mm512_set1_ps(plain));
        _mm512_storeu_ps(row + b * kPageTokens + s * kLaneCount,
                         _mm512_fmadd_ps(centered_byte(x[s], b, offset), both, zero));
      }
    }
  }
}

// A vector of levels holds 8 channels of 4 tokens, and of the 4 tokens after them.
void value_block(const SegmentView& segment, int block, const uint8_t* levels, float* v, int dim) {
  const __m512i offset = _mm512_set1_epi32(segment.offset);
  const int first_token = block * kBlockTokens;
  alignas(64) float token_scale[kBlockTokens], token_zero[kBlockTokens];
  for (int t = 0; t < kBlockTokens; t += kLaneCount) {
    _mm512_store_ps(token_scale + t,
                    segment.token_scales ? load_f16(segment.token_scales + first_token + t) : _mm512_set1_ps(1.0f));
    _mm512_store_ps(token_zero + t,
                    segment.token_zeros ? load_f16(segment.token_zeros + first_token + t) : _mm512_setzero_ps());
  }
  for (int c = 0; c < segment.count; c += kCellChannels) {
    __m256 channel_scale = _mm256_set1_ps(segment.step), plain = _mm256_setzero_ps();
    if (segment.mean) plain = load_f16_8(segment.mean + c);
    if (segment.channel_scales[block]) {
      channel_scale = _mm256_mul_ps(channel_scale, load_f16_8(segment.channel_scales[block] + c));
    }
    if (segment.channel_zeros[block]) plain = _mm256_add_ps(plain, load_f16_8(segment.channel_zeros[block] + c));
    float* column = v + first_token * dim + segment.first + c;
    for (int t = 0; t < kBlockTokens; t += 8) {
      const __m512i x = load_bytes(levels + c / kCellChannels * kCellCodes + t / 4 * kVectorCodes);
#pragma GCC unroll 4
      for (int b = 0; b < 4; ++b) {
        const __m512 values = centered_byte(x, b, offset);
        const __m256 parts[2] = {_mm512_castps512_ps256(values), _mm512_extractf32x8_ps(values, 1)};
#pragma GCC unroll 2
        for (int s = 0; s < 2; ++s) {
          const int token = t + 4 * s + b;
          const __m256 both = _mm256_mul_ps(channel_scale, _mm256_broadcast_ss(token_scale + token));
          const __m256 zero = _mm256_add_ps(plain, _mm256_broadcast_ss(token_zero + token));
          _mm256_storeu_ps(column + token * dim, _mm256_fmadd_ps(parts[s], both, zero));
        }
      }
    }
  }
}

}  // namespace

void key_tile(const SideLayout& layout, const std::byte* page, float* kt, KernelScratch& scratch) {
  const PageView view = view_page(layout, page);
  for (int s = 0; s < view.segments; ++s) {
    const SegmentView segment = view_segment(layout, page, s, scratch.scales);
    if (segment.raw) {
      avx2::raw_key_tile(segment, kt);
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
      avx2::raw_value_tile(segment, v, view.dim);
      continue;
    }
    for (int block = 0; block < kBlocksPerPage; ++block) {
      unpack_levels(segment, block, scratch.levels);
      value_block(segment, block, scratch.levels, v, view.dim);
    }
  }
}

}  // namespace kvasir::avx512
