// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Scores and weighted sums over packed pages with VNNI: one instruction multiplies 64 levels (unsigned bytes) by signed
// bytes and adds them up by fours. Queries and weights keep 16 bits: as x = 256 high + low with both halves signed
// bytes, so two such instructions take the place of the AVX2 kernel's 16-bit products, with the same precision.
// Levels go from the page straight into registers and are multiplied with up to 8 rows there.
#include "attention/kernels-avx2.h"
#include "attention/kernels-avx512.h"
#include "attention/lanes-avx512.h"
#include "attention/packed_loops.h"

namespace kvasir::avx512 {

namespace {

constexpr int kLaneCount = 16;
constexpr float kHigh = 256.0f;
constexpr float kSmallest = 1e-30f;  // below, the inverse overflows; such rows add nothing a float sum would notice

struct Quantized {
  float scale;
  int sum_high, sum_low;
};

// x[i] = scale * (256 high[i] + low[i]).
Quantized quantize_row(const float* x, int n, int8_t* high, int8_t* low) {
  __m512 magnitude = _mm512_setzero_ps();
  for (int i = 0; i < n; i += kLaneCount) {
    magnitude = _mm512_max_ps(magnitude, _mm512_abs_ps(_mm512_maskz_loadu_ps(first_lanes(n - i), x + i)));
  }
  const float max = _mm512_reduce_max_ps(magnitude);
  constexpr float kAmplitude = 127 * 256 + 127;  // the largest that two signed bytes hold on both sides
  const __m512 factor = _mm512_set1_ps(max > kSmallest ? kAmplitude / max : 0.0f);
  __m512i sum_high = _mm512_setzero_si512(), sum_low = _mm512_setzero_si512();
  for (int i = 0; i < n; i += kLaneCount) {
    const __mmask16 lanes = first_lanes(n - i);
    const __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, x + i), factor));
    const __m512i upper = _mm512_srai_epi32(_mm512_add_epi32(whole, _mm512_set1_epi32(128)), 8);
    const __m512i lower = _mm512_sub_epi32(whole, _mm512_slli_epi32(upper, 8));
    sum_high = _mm512_add_epi32(sum_high, upper);
    sum_low = _mm512_add_epi32(sum_low, lower);
    _mm512_mask_cvtepi32_storeu_epi8(high + i, lanes, upper);
    _mm512_mask_cvtepi32_storeu_epi8(low + i, lanes, lower);
  }
  return {max / kAmplitude, _mm512_reduce_add_epi32(sum_high), _mm512_reduce_add_epi32(sum_low)};
}

RowTerms row_terms(const Quantized& row, const SegmentView& segment, float plain_sum) {
  return {row.scale * segment.step, row.sum_high * segment.offset, row.sum_low * segment.offset, plain_sum};
}

inline __m512i load_quad(const int8_t* four) {
  typedef int Quad __attribute__((may_alias, aligned(1)));
  return _mm512_set1_epi32(*reinterpret_cast<const Quad*>(four));
}

// --- from codes to sums ---

// Sums of R rows, those of high and of low bytes apart.
template <int R>
struct Sums {
  __m512i high[R], low[R];

  Sums() {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) high[r] = low[r] = _mm512_setzero_si512();
  }
  // Each lane's 4 levels times 4 coefficients of each row, whose low bytes lie `to_low` further on.
  inline void add(__m512i levels, const int8_t* coefficients, int row_stride, int to_low) {
    asm volatile("" : "+r"(coefficients));  // else those of a whole unrolled cell are loaded first, and spilled
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const int8_t* row = coefficients + r * row_stride;
      high[r] = _mm512_dpbusd_epi32(high[r], levels, load_quad(row));
      low[r] = _mm512_dpbusd_epi32(low[r], levels, load_quad(row + to_low));
    }
  }
  // With the codebook's offset taken off. Exact until the floats.
  inline __m512 centered(int r, const RowTerms& terms) const {
    const __m512 upper = _mm512_cvtepi32_ps(_mm512_sub_epi32(high[r], _mm512_set1_epi32(terms.offset_sum)));
    const __m512 lower = _mm512_cvtepi32_ps(_mm512_sub_epi32(low[r], _mm512_set1_epi32(terms.offset_low)));
    return _mm512_fmadd_ps(upper, _mm512_set1_ps(kHigh), lower);
  }
};

// What read_blocks hands out, as levels: vectors 2 P and 2 P + 1 of a cell, or vector V of two cells.
template <int Bits, bool Lookup>
struct Codes {
  static constexpr int bits = Bits;
  __m512i table = _mm512_setzero_si512();

  explicit Codes(const uint8_t* level) {
    if constexpr (Lookup) table = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(level)));
  }
  inline __m512i level(__m512i code) const { return Lookup ? _mm512_shuffle_epi8(table, code) : code; }
  template <int P>
  inline __m512i pair(const uint8_t* cell) const {
    return level(load_code_pair<Bits, P>(cell));
  }
  template <int V>
  inline __m512i twins(const uint8_t* cell, ptrdiff_t apart) const {
    return level(load_code_twins<Bits, V>(cell, apart));
  }
};

struct Bytes {
  static constexpr int bits = 8;
  static void unpack(const SegmentView& segment, int block, uint8_t* levels) { unpack_levels(segment, block, levels); }
  template <int P>
  inline __m512i pair(const uint8_t* cell) const {
    return load_bytes(cell + 2 * P * kVectorCodes);
  }
  template <int V>
  inline __m512i twins(const uint8_t* cell, ptrdiff_t apart) const {
    return load_twins(cell + V * kVectorCodes, cell + V * kVectorCodes + apart);
  }
};

float sum_row(const float* x, int n) {
  __m512 sum = _mm512_setzero_ps();
  for (int i = 0; i < n; i += kLaneCount) {
    sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(first_lanes(n - i), x + i));
  }
  return _mm512_reduce_add_ps(sum);
}

float dot_f16(const float* x, const uint16_t* halves, int n) {
  __m256 sum = _mm256_setzero_ps();
  for (int i = 0; i < n; i += 8) sum = _mm256_fmadd_ps(_mm256_loadu_ps(x + i), load_f16_8(halves + i), sum);
  return _mm512_reduce_add_ps(_mm512_zextps256_ps512(sum));
}

// --- scores ---

// query: [rows][2][count] signed bytes, high before low. Sums of tokens 16 Half .. 16 Half + 15 of a block.
template <int Half, int R, class Source>
[[gnu::noinline]] void score_half(const Source& source, const Cells& cells, const SegmentView& segment, int block,
                                  const int8_t* query, const RowTerms* terms, float* scores) {
  const uint8_t* cell = cells.first;
  const int count = segment.count;
  Sums<R> sums;
  for (int c = 0; c < count; c += kCellChannels, cell += kVectorCodes * Source::bits) {
    sums.add(source.template pair<Half>(cell), query + c, 2 * count, count);
    sums.add(source.template pair<Half + 2>(cell), query + c + kQuad, 2 * count, count);
  }
  const int token = block * kBlockTokens + Half * kLaneCount;
  const __m512 scale = segment.token_scales ? load_f16(segment.token_scales + token) : _mm512_set1_ps(1.0f);
  const __m512 zero = segment.token_zeros ? load_f16(segment.token_zeros + token) : _mm512_setzero_ps();
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    float* at = scores + r * kPageTokens + token;
    __m512 score = _mm512_fmadd_ps(zero, _mm512_set1_ps(terms[r].plain_sum), _mm512_loadu_ps(at));
    score = _mm512_fmadd_ps(sums.centered(r, terms[r]), _mm512_mul_ps(scale, _mm512_set1_ps(terms[r].factor)), score);
    _mm512_storeu_ps(at, score);
  }
}

void score_block(const SegmentView& segment, int block, const int16_t* query, const RowTerms* terms, int rows,
                 float* scores, uint8_t* levels) {
  read_blocks<Codes, Bytes>(segment, block, 1, levels, [&](const auto& source, const Cells& cells) {
    in_row_groups(rows, [&](auto group, int r) {
      constexpr int R = decltype(group)::value;
      const auto* from = reinterpret_cast<const int8_t*>(query + r * segment.count);
      float* to = scores + r * kPageTokens;
      score_half<0, R>(source, cells, segment, block, from, terms + r, to);
      score_half<1, R>(source, cells, segment, block, from, terms + r, to);
    });
  });
}

// Channel scales belong to the query: they change with the block, tokens within it share them.
RowTerms fold_channels(const SegmentView& segment, int block, const float* q, float* scores, int16_t* query) {
  alignas(64) float folded[kMaxHeadDim];
  for (int c = 0; c < segment.count; c += 8) {
    _mm256_storeu_ps(folded + c, _mm256_mul_ps(_mm256_loadu_ps(q + c), load_f16_8(segment.channel_scales[block] + c)));
  }
  if (segment.channel_zeros[block]) {
    const __m512 zeros = _mm512_set1_ps(dot_f16(q, segment.channel_zeros[block], segment.count));
    for (int t = 0; t < kBlockTokens; t += kLaneCount) {
      float* at = scores + block * kBlockTokens + t;
      _mm512_storeu_ps(at, _mm512_add_ps(_mm512_loadu_ps(at), zeros));
    }
  }
  auto* bytes = reinterpret_cast<int8_t*>(query);
  return row_terms(quantize_row(folded, segment.count, bytes, bytes + segment.count), segment, 0.0f);
}

void score_segment(const SegmentView& segment, int dim, const float* q, int rows, int16_t* query, RowTerms* terms,
                   float* scores, uint8_t* levels) {
  score_blocks(segment, dim, q, rows, query, terms, scores, levels, fold_channels, score_block);
}

// --- weighted sums ---

// What turns the sums of 16 channels into values; null pointers where a codec has no such numbers.
struct ChannelTerms {
  const uint16_t* scales;
  const uint16_t* zeros;
};

inline __m512 halves_or_one(const uint16_t* halves, __mmask16 lanes) {
  return halves ? _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes, halves)) : _mm512_set1_ps(1.0f);
}

// Sums of the channels of two cells that lie `apart` bytes apart, over `blocks` blocks; 0 stands for a cell without
// another. weights: [rows][2][64 tokens], high before low.
template <int R, class Source>
[[gnu::noinline]] void gather_cells(const Source& source, const Cells& cells, ptrdiff_t apart, int blocks,
                                    const int8_t* weights, const RowTerms* terms, const ChannelTerms& channels,
                                    float* out, int dim) {
  const uint8_t* cell = cells.first;
  Sums<R> sums;
  for (int b = 0; b < blocks; ++b, cell += cells.stride, weights += kBlockTokens) {
    each_vector([&](auto v) {
      constexpr int V = decltype(v)::value;
      sums.add(source.template twins<V>(cell, apart), weights + V * kQuad, 2 * kPageTokens, kPageTokens);
    });
  }
  const __mmask16 lanes = apart ? __mmask16(0xffff) : __mmask16(0xff);
  const __m512 scale = halves_or_one(channels.scales, lanes), zero = halves_or_one(channels.zeros, lanes);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    float* at = out + r * dim;
    __m512 value = _mm512_fmadd_ps(zero, _mm512_set1_ps(terms[r].plain_sum), _mm512_maskz_loadu_ps(lanes, at));
    value = _mm512_fmadd_ps(sums.centered(r, terms[r]), _mm512_mul_ps(scale, _mm512_set1_ps(terms[r].factor)), value);
    _mm512_mask_storeu_ps(at, lanes, value);
  }
}

// Weights of `blocks` blocks times their token scales, as integers.
RowTerms fold_tokens(const SegmentView& segment, int first_block, int blocks, const float* weights, int8_t* out) {
  alignas(64) float folded[kPageTokens];
  const int first = first_block * kBlockTokens, tokens = blocks * kBlockTokens;
  for (int t = 0; t < tokens; t += kLaneCount) {
    const __m512 scale = segment.token_scales ? load_f16(segment.token_scales + first + t) : _mm512_set1_ps(1.0f);
    _mm512_store_ps(folded + t, _mm512_mul_ps(_mm512_loadu_ps(weights + first + t), scale));
  }
  float plain_sum = 0.0f;
  if (segment.token_zeros) plain_sum = dot_f16(weights + first, segment.token_zeros + first, tokens);
  if (segment.channel_zeros[first_block]) plain_sum = sum_row(weights + first, tokens);
  return row_terms(quantize_row(folded, tokens, out, out + kPageTokens), segment, plain_sum);
}

// The blocks of a page share one integer scale and are summed together, unless channel scales tell them apart.
void gather_segment(const SegmentView& segment, int dim, const float* weights, int rows, float* out,
                    KernelScratch& scratch) {
  RowTerms terms[kMaxRows];
  auto* bytes = reinterpret_cast<int8_t*>(scratch.weights);
  const int blocks = segment.channel_scales[0] ? 1 : kBlocksPerPage;
  for (int block = 0; block < kBlocksPerPage; block += blocks) {
    for (int r = 0; r < rows; ++r) {
      terms[r] = fold_tokens(segment, block, blocks, weights + r * kPageTokens, bytes + 2 * r * kPageTokens);
    }
    const uint16_t *scales = segment.channel_scales[block], *zeros = segment.channel_zeros[block];
    read_blocks<Codes, Bytes>(segment, block, blocks, scratch.levels, [&](const auto& source, Cells cells) {
      const ptrdiff_t cell_bytes = ptrdiff_t(kVectorCodes) * source.bits;
      for (int c = 0; c < segment.count; c += 2 * kCellChannels, cells.first += 2 * cell_bytes) {
        const ChannelTerms channels = {scales ? scales + c : nullptr, zeros ? zeros + c : nullptr};
        const ptrdiff_t apart = c + kCellChannels < segment.count ? cell_bytes : 0;
        in_row_groups(rows, [&](auto group, int r) {
          gather_cells<decltype(group)::value>(source, cells, apart, blocks, bytes + 2 * r * kPageTokens, terms + r,
                                               channels, out + r * dim + segment.first + c, dim);
        });
      }
    });
  }
}

// out += the sum of a row's weights times the page's mean.
void add_mean(const PageView& view, const float* weights, float* out) {
  const __m256 total = _mm256_set1_ps(sum_row(weights, kPageTokens));
  for (int c = 0; c < view.mean_dim; c += 8) {
    _mm256_storeu_ps(out + c, _mm256_fmadd_ps(total, load_f16_8(view.mean + c), _mm256_loadu_ps(out + c)));
  }
}

RowTerms prepare_row(const SegmentView& segment, const float* x, int16_t* to) {
  auto* bytes = reinterpret_cast<int8_t*>(to);
  return row_terms(quantize_row(x, segment.count, bytes, bytes + segment.count), segment, sum_row(x, segment.count));
}

}  // namespace

void prepare_query(const SideLayout& layout, const float* q, int rows, KernelScratch& scratch) {
  prepare_segments(layout, q, rows, scratch, prepare_row);
}

void score_page(const SideLayout& layout, const std::byte* page, const float* q, int rows, float* scores,
                KernelScratch& scratch) {
  score_segments(layout, page, q, rows, scores, scratch, dot_f16, avx2::add_score_halves, score_segment);
}

void gather_page(const SideLayout& layout, const std::byte* page, const float* weights, int rows, float* out,
                 KernelScratch& scratch) {
  gather_segments(layout, page, weights, rows, out, scratch, add_mean, avx2::add_gather_halves, gather_segment);
}

}  // namespace kvasir::avx512
