// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Scores and weighted sums over packed pages, in integers: levels are bytes, queries and weights become 16-bit
// integers with one scale a row, products are summed in 32 bits without rounding. Stored scales enter once per sum.
// Levels go from the page straight into registers and are multiplied with up to 8 rows there.
#include "attention/kernels-neon.h"
#include "attention/lanes-neon.h"
#include "attention/packed_loops.h"

namespace kvasir::neon {

namespace {

// --- from codes to sums ---

// Compilers like to load the coefficients of a whole unrolled cell first, and then have to put them somewhere: an
// address that seems new at each step keeps them from it.
template <class T>
inline const T* kept_in_order(const T* address) {
  asm volatile("" : "+r"(address));
  return address;
}

// Levels as 16-bit integers, two vectors that belong to 8 coefficients in a row: of[v][h][p] has bytes 2 p (its lanes
// 0 to 3) and 2 p + 1 (4 to 7) of the 32-bit lanes of half h of vector v. A coefficient then multiplies four sums at
// once, straight from a lane of the register that holds all 8.
struct Factors {
  int16x8_t of[2][2][2];
};

// A table's index beyond its end yields 0, so one look-up also widens.
inline int16x8_t byte_pairs(uint8x16_t levels, int pair) {
  constexpr uint8_t none = 255;
  static constexpr uint8_t places[2][16] = {
      {0, none, 4, none, 8, none, 12, none, 1, none, 5, none, 9, none, 13, none},
      {2, none, 6, none, 10, none, 14, none, 3, none, 7, none, 11, none, 15, none}};
  return vreinterpretq_s16_u8(vqtbl1q_u8(levels, vld1q_u8(places[pair])));
}

template <int First, int Second, class Source>
KVASIR_NEON_INLINE Factors load_factors(const Source& source, const uint8_t* cell) {
  const Vector vectors[2] = {source.template vector<First>(cell), source.template vector<Second>(cell)};
  Factors factors;
#pragma GCC unroll 2
  for (int v = 0; v < 2; ++v) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      factors.of[v][h][0] = byte_pairs(vectors[v].half[h], 0);
      factors.of[v][h][1] = byte_pairs(vectors[v].half[h], 1);
    }
  }
  return factors;
}

// sums + 4 levels of each lane times coefficients 4 V to 4 V + 3.
template <int V>
inline int32x4_t add_four(int32x4_t sums, const int16x8_t (&pairs)[2], int16x8_t coefficients) {
  sums = vmlal_laneq_s16(sums, vget_low_s16(pairs[0]), coefficients, 4 * V);
  sums = add_high_products<4 * V + 1>(sums, pairs[0], coefficients);
  sums = vmlal_laneq_s16(sums, vget_low_s16(pairs[1]), coefficients, 4 * V + 2);
  return add_high_products<4 * V + 3>(sums, pairs[1], coefficients);
}

// Nor are products of one row put off until those of the next are under way.
inline void finished([[maybe_unused]] int32x4_t (&sums)[2]) {
#ifndef KVASIR_NEON_EMULATION
  asm volatile("" : "+w"(sums[0]), "+w"(sums[1]));
#endif
}

// sums[r][h], lane l += the products of the lane's 8 levels and 8 coefficients of row r.
template <int R>
KVASIR_NEON_INLINE void add_products(const Factors& factors, const int16_t* coefficients, int row_stride,
                                     int32x4_t (&sums)[R][2]) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const int16x8_t row = vld1q_s16(kept_in_order(coefficients + r * row_stride));
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      sums[r][h] = add_four<0>(sums[r][h], factors.of[0][h], row);
      sums[r][h] = add_four<1>(sums[r][h], factors.of[1][h], row);
    }
    finished(sums[r]);
  }
}

// What read_blocks hands out: vector V of a cell, as levels.
template <int Bits, bool Lookup>
struct Codes {
  static constexpr int bits = Bits;
  uint8x16_t table = vdupq_n_u8(0);

  explicit Codes(const uint8_t* level) {
    if constexpr (Lookup) {
      uint8_t bytes[16] = {};
      std::memcpy(bytes, level, size_t(1) << Bits);
      table = vld1q_u8(bytes);
    }
  }
  template <int V>
  inline Vector vector(const uint8_t* cell) const {
    Vector x = load_codes<Bits, V>(cell);
    if constexpr (Lookup) {
      for (uint8x16_t& half : x.half) half = vqtbl1q_u8(table, half);
    }
    return x;
  }
};

struct Bytes {
  static constexpr int bits = 8;
  static void unpack(const SegmentView& segment, int block, uint8_t* levels) { unpack_levels(segment, block, levels); }
  template <int V>
  inline Vector vector(const uint8_t* cell) const {
    return load_vector(cell + V * kVectorCodes);
  }
};

// at[0..3] += zero * plain_sum + scale * the sums with the codebook's offset taken off. Wrapping on the way is
// harmless: the result fits.
inline void add_sums(int32x4_t sums, const RowTerms& terms, float32x4_t scale, float32x4_t zero, float* at) {
  const float32x4_t centered = vcvtq_f32_s32(vsubq_s32(sums, vdupq_n_s32(terms.offset_sum)));
  const float32x4_t plain = vfmaq_n_f32(vld1q_f32(at), zero, terms.plain_sum);
  vst1q_f32(at, vfmaq_f32(plain, centered, vmulq_n_f32(scale, terms.factor)));
}

inline float32x4_t load_or(const uint16_t* halves, int i, float otherwise) {
  return halves ? load_f16(halves + i) : vdupq_n_f32(otherwise);
}

float sum_row(const float* x, int n) {
  float32x4_t sum = vdupq_n_f32(0.0f);
  for (int i = 0; i < n; i += kLaneCount) sum = vaddq_f32(sum, vld1q_f32(x + i));
  return vaddvq_f32(sum);
}

float dot_f16(const float* x, const uint16_t* halves, int n) {
  float32x4_t sum = vdupq_n_f32(0.0f);
  for (int i = 0; i < n; i += kLaneCount) sum = vfmaq_f32(sum, vld1q_f32(x + i), load_f16(halves + i));
  return vaddvq_f32(sum);
}

// What multiplies levels: x as 16-bit integers, x[i] = scale * integer. `sum` is that of the integers.
struct Quantized {
  float scale;
  int sum;
};

// n is a multiple of 8, at most kMaxHeadDim.
Quantized quantize_row(const float* x, int n, int16_t* out) {
  float32x4_t magnitude = vdupq_n_f32(0.0f);
  for (int i = 0; i < n; i += kLaneCount) magnitude = vmaxq_f32(magnitude, vabsq_f32(vld1q_f32(x + i)));
  const float max = vmaxvq_f32(magnitude);
  // 255 * amplitude * n must stay below 2^31.
  const float amplitude = n <= 256 ? 32767.0f : 16383.0f;
  // Below this the inverse overflows; such rows contribute nothing a float sum would notice.
  const float inverse = max > 1e-30f ? amplitude / max : 0.0f;
  int32x4_t sum = vdupq_n_s32(0);
  for (int i = 0; i < n; i += 2 * kLaneCount) {
    const int32x4_t low = round_lanes(vmulq_n_f32(vld1q_f32(x + i), inverse));
    const int32x4_t high = round_lanes(vmulq_n_f32(vld1q_f32(x + i + kLaneCount), inverse));
    sum = vaddq_s32(sum, vaddq_s32(low, high));
    vst1q_s16(out + i, vcombine_s16(vqmovn_s32(low), vqmovn_s32(high)));
  }
  return {max / amplitude, vaddvq_s32(sum)};
}

RowTerms row_terms(const Quantized& row, const SegmentView& segment, float plain_sum) {
  return {row.scale * segment.step, row.sum * segment.offset, 0, plain_sum};
}

// The two kernels below are kept out of line so that each has the registers for itself.

// --- scores ---

// Sums of tokens 8 Octet .. 8 Octet + 7 of a block; a pass over the cells for each octet, since the sums of all don't
// fit in registers.
template <int Octet, int R, class Source>
[[gnu::noinline]] void score_octet(const Source& source, const Cells& cells, const SegmentView& segment, int block,
                                   const int16_t* query, const RowTerms* terms, float* scores) {
  const uint8_t* cell = cells.first;
  int32x4_t sums[R][2];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) sums[r][0] = sums[r][1] = vdupq_n_s32(0);
  for (int c = 0; c < segment.count; c += kCellChannels, cell += kVectorCodes * Source::bits) {
    add_products<R>(load_factors<Octet, Octet + 4>(source, cell), query + c, segment.count, sums);
  }
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    const int token = block * kBlockTokens + (2 * Octet + h) * kLaneCount;
    const float32x4_t scale = load_or(segment.token_scales, token, 1.0f);
    const float32x4_t zero = load_or(segment.token_zeros, token, 0.0f);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) add_sums(sums[r][h], terms[r], scale, zero, scores + r * kPageTokens + token);
  }
}

void score_block(const SegmentView& segment, int block, const int16_t* query, const RowTerms* terms, int rows,
                 float* scores, uint8_t* levels) {
  read_blocks<Codes, Bytes>(segment, block, 1, levels, [&](const auto& source, const Cells& cells) {
    in_row_groups(rows, [&](auto group, int r) {
      constexpr int R = decltype(group)::value;
      const int16_t* from = query + r * segment.count;
      float* to = scores + r * kPageTokens;
      score_octet<0, R>(source, cells, segment, block, from, terms + r, to);
      score_octet<1, R>(source, cells, segment, block, from, terms + r, to);
      score_octet<2, R>(source, cells, segment, block, from, terms + r, to);
      score_octet<3, R>(source, cells, segment, block, from, terms + r, to);
    });
  });
}

// Channel scales belong to the query: they change with the block, tokens within it share them.
RowTerms fold_channels(const SegmentView& segment, int block, const float* q, float* scores, int16_t* query) {
  float folded[kMaxHeadDim];
  for (int c = 0; c < segment.count; c += kLaneCount) {
    vst1q_f32(folded + c, vmulq_f32(vld1q_f32(q + c), load_f16(segment.channel_scales[block] + c)));
  }
  if (segment.channel_zeros[block]) {
    const float32x4_t zeros = vdupq_n_f32(dot_f16(q, segment.channel_zeros[block], segment.count));
    for (int t = 0; t < kBlockTokens; t += kLaneCount) {
      float* at = scores + block * kBlockTokens + t;
      vst1q_f32(at, vaddq_f32(vld1q_f32(at), zeros));
    }
  }
  const Quantized quantized = quantize_row(folded, segment.count, query);
  return row_terms(quantized, segment, 0.0f);
}

void score_segment(const SegmentView& segment, int dim, const float* q, int rows, int16_t* query, RowTerms* terms,
                   float* scores, uint8_t* levels) {
  score_blocks(segment, dim, q, rows, query, terms, scores, levels, fold_channels, score_block);
}

// --- weighted sums ---

// What turns the sums of 8 channels into values; null pointers where a codec has no such numbers.
struct ChannelTerms {
  const uint16_t* scales;
  const uint16_t* zeros;
};

// Sums of the 8 channels of a cell over `blocks` blocks.
template <int R, class Source>
[[gnu::noinline]] void gather_cell(const Source& source, const Cells& cells, int blocks, const int16_t* weights,
                                   const RowTerms* terms, const ChannelTerms& channels, float* out, int dim) {
  const uint8_t* cell = cells.first;
  int32x4_t sums[R][2];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) sums[r][0] = sums[r][1] = vdupq_n_s32(0);
  for (int b = 0; b < blocks; ++b, cell += cells.stride, weights += kBlockTokens) {
    add_products<R>(load_factors<0, 1>(source, cell), weights, kPageTokens, sums);
    add_products<R>(load_factors<2, 3>(source, cell), weights + 8, kPageTokens, sums);
    add_products<R>(load_factors<4, 5>(source, cell), weights + 16, kPageTokens, sums);
    add_products<R>(load_factors<6, 7>(source, cell), weights + 24, kPageTokens, sums);
  }
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    const int c = h * kLaneCount;
    const float32x4_t scale = load_or(channels.scales, c, 1.0f), zero = load_or(channels.zeros, c, 1.0f);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) add_sums(sums[r][h], terms[r], scale, zero, out + r * dim + c);
  }
}

// Weights of `blocks` blocks times their token scales, as integers.
RowTerms fold_tokens(const SegmentView& segment, int first_block, int blocks, const float* weights, int16_t* out) {
  float folded[kPageTokens];
  const int first = first_block * kBlockTokens, tokens = blocks * kBlockTokens;
  for (int t = 0; t < tokens; t += kLaneCount) {
    vst1q_f32(folded + t, vmulq_f32(vld1q_f32(weights + first + t), load_or(segment.token_scales, first + t, 1.0f)));
  }
  float plain_sum = 0.0f;
  if (segment.token_zeros) plain_sum = dot_f16(weights + first, segment.token_zeros + first, tokens);
  if (segment.channel_zeros[first_block]) plain_sum = sum_row(weights + first, tokens);
  const Quantized quantized = quantize_row(folded, tokens, out);
  return row_terms(quantized, segment, plain_sum);
}

// The blocks of a page share one integer scale and are summed together, unless channel scales tell them apart.
void gather_segment(const SegmentView& segment, int dim, const float* weights, int rows, float* out,
                    KernelScratch& scratch) {
  RowTerms terms[kMaxRows];
  const int blocks = segment.channel_scales[0] ? 1 : kBlocksPerPage;
  for (int block = 0; block < kBlocksPerPage; block += blocks) {
    for (int r = 0; r < rows; ++r) {
      terms[r] = fold_tokens(segment, block, blocks, weights + r * kPageTokens, scratch.weights + r * kPageTokens);
    }
    const uint16_t *scales = segment.channel_scales[block], *zeros = segment.channel_zeros[block];
    read_blocks<Codes, Bytes>(segment, block, blocks, scratch.levels, [&](const auto& source, Cells cells) {
      for (int c = 0; c < segment.count; c += kCellChannels, cells.first += kVectorCodes * source.bits) {
        const ChannelTerms channels = {scales ? scales + c : nullptr, zeros ? zeros + c : nullptr};
        in_row_groups(rows, [&](auto group, int r) {
          gather_cell<decltype(group)::value>(source, cells, blocks, scratch.weights + r * kPageTokens, terms + r,
                                              channels, out + r * dim + segment.first + c, dim);
        });
      }
    });
  }
}

// out += the sum of a row's weights times the page's mean.
void add_mean(const PageView& view, const float* weights, float* out) {
  const float total = sum_row(weights, kPageTokens);
  for (int c = 0; c < view.mean_dim; c += kLaneCount) {
    vst1q_f32(out + c, vfmaq_n_f32(vld1q_f32(out + c), load_f16(view.mean + c), total));
  }
}

RowTerms prepare_row(const SegmentView& segment, const float* x, int16_t* to) {
  return row_terms(quantize_row(x, segment.count, to), segment, sum_row(x, segment.count));
}

}  // namespace

void prepare_query(const SideLayout& layout, const float* q, int rows, KernelScratch& scratch) {
  prepare_segments(layout, q, rows, scratch, prepare_row);
}

void score_page(const SideLayout& layout, const std::byte* page, const float* q, int rows, float* scores,
                KernelScratch& scratch) {
  score_segments(layout, page, q, rows, scores, scratch, dot_f16, add_score_halves, score_segment);
}

void gather_page(const SideLayout& layout, const std::byte* page, const float* weights, int rows, float* out,
                 KernelScratch& scratch) {
  gather_segments(layout, page, weights, rows, out, scratch, add_mean, add_gather_halves, gather_segment);
}

}  // namespace kvasir::neon
