// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Scores and weighted sums over packed pages, in integers: levels are bytes, queries and weights become 16-bit
// integers with one scale a row, products are summed in 32 bits without rounding. Stored scales enter once per sum.
// Levels go from the page straight into registers and are multiplied with up to 8 rows there.
#include "attention/kernels-avx2.h"
#include "attention/lanes-avx2.h"
#include "attention/packed_loops.h"

namespace kvasir::avx2 {

namespace {

constexpr int kLaneCount = 8;

// --- from codes to sums ---

// Compilers like to load the coefficients of a whole unrolled cell first, and then have to put them somewhere: an
// address that seems new at each step keeps them from it.
template <class T>
inline const T* kept_in_order(const T* address) {
  asm volatile("" : "+r"(address));
  return address;
}

// Two 16-bit coefficients in every lane, straight from memory.
inline __m256i load_pair(const int16_t* coefficients) {
  typedef int Pair __attribute__((may_alias, aligned(alignof(int16_t))));
  return _mm256_set1_epi32(*reinterpret_cast<const Pair*>(coefficients));
}

// sums[r], lane l += the lane's 4 bytes times 4 coefficients of row r. Even and odd bytes are multiplied apart, so that
// the two products of a madd already belong to the same lane: hence coefficients in the order 0 2 1 3.
template <int R>
inline void add_products(__m256i levels, const int16_t* coefficients, int row_stride, __m256i (&sums)[R]) {
  coefficients = kept_in_order(coefficients);
  const __m256i even = _mm256_and_si256(levels, _mm256_set1_epi16(0xff)), odd = _mm256_srli_epi16(levels, 8);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const int16_t* row = coefficients + r * row_stride;
    const __m256i products =
        _mm256_add_epi32(_mm256_madd_epi16(even, load_pair(row)), _mm256_madd_epi16(odd, load_pair(row + 2)));
    sums[r] = _mm256_add_epi32(sums[r], products);
    asm("" : "+x"(sums[r]));  // nor put off: additions in another order need more registers than there are
  }
}

// What read_blocks hands out: vector V of a cell, as levels.
template <int Bits, bool Lookup>
struct Codes {
  static constexpr int bits = Bits;
  __m256i table = _mm256_setzero_si256();

  explicit Codes(const uint8_t* level) {
    if constexpr (Lookup) table = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(level)));
  }
  template <int V>
  inline __m256i vector(const uint8_t* cell) const {
    const __m256i code = load_codes<Bits, V>(cell);
    return Lookup ? _mm256_shuffle_epi8(table, code) : code;
  }
};

struct Bytes {
  static constexpr int bits = 8;
  static void unpack(const SegmentView& segment, int block, uint8_t* levels) { unpack_levels(segment, block, levels); }
  template <int V>
  inline __m256i vector(const uint8_t* cell) const {
    return load_bytes(cell + V * kVectorCodes);
  }
};

// The sums above with the codebook's offset taken off, as floats. Wrapping on the way is harmless: the result fits.
inline __m256 centered(__m256i sum, int offset_sum) {
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(sum, _mm256_set1_epi32(offset_sum)));
}

float sum_row(const float* x, int n) {
  __m256 sum = _mm256_setzero_ps();
  for (int i = 0; i < n; i += kLaneCount) sum = _mm256_add_ps(sum, _mm256_loadu_ps(x + i));
  return sum_lanes(sum);
}

float dot_f16(const float* x, const uint16_t* halves, int n) {
  __m256 sum = _mm256_setzero_ps();
  for (int i = 0; i < n; i += kLaneCount) sum = _mm256_fmadd_ps(_mm256_loadu_ps(x + i), load_f16(halves + i), sum);
  return sum_lanes(sum);
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
  __m256i sums[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) sums[r] = _mm256_setzero_si256();
  for (int c = 0; c < segment.count; c += kCellChannels, cell += kVectorCodes * Source::bits) {
    add_products<R>(source.template vector<Octet>(cell), query + c, segment.count, sums);
    add_products<R>(source.template vector<Octet + 4>(cell), query + c + kQuad, segment.count, sums);
  }
  const int token = block * kBlockTokens + Octet * kLaneCount;
  const __m256 scale = segment.token_scales ? load_f16(segment.token_scales + token) : _mm256_set1_ps(1.0f);
  const __m256 zero = segment.token_zeros ? load_f16(segment.token_zeros + token) : _mm256_setzero_ps();
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    float* at = scores + r * kPageTokens + token;
    __m256 score = _mm256_fmadd_ps(zero, _mm256_set1_ps(terms[r].plain_sum), _mm256_loadu_ps(at));
    score = _mm256_fmadd_ps(centered(sums[r], terms[r].offset_sum),
                            _mm256_mul_ps(scale, _mm256_set1_ps(terms[r].factor)), score);
    _mm256_storeu_ps(at, score);
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
  alignas(32) float folded[kMaxHeadDim];
  for (int c = 0; c < segment.count; c += kLaneCount) {
    const __m256 scale = load_f16(segment.channel_scales[block] + c);
    _mm256_store_ps(folded + c, _mm256_mul_ps(_mm256_loadu_ps(q + c), scale));
  }
  if (segment.channel_zeros[block]) {
    const __m256 zeros = _mm256_set1_ps(dot_f16(q, segment.channel_zeros[block], segment.count));
    for (int t = 0; t < kBlockTokens; t += kLaneCount) {
      float* at = scores + block * kBlockTokens + t;
      _mm256_storeu_ps(at, _mm256_add_ps(_mm256_loadu_ps(at), zeros));
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
  __m256i sums[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) sums[r] = _mm256_setzero_si256();
  for (int b = 0; b < blocks; ++b, cell += cells.stride, weights += kBlockTokens) {
    each_vector([&](auto v) {
      constexpr int V = decltype(v)::value;
      add_products<R>(source.template vector<V>(cell), weights + V * kQuad, kPageTokens, sums);
    });
  }
  const __m256 scale = channels.scales ? load_f16(channels.scales) : _mm256_set1_ps(1.0f);
  const __m256 zero = channels.zeros ? load_f16(channels.zeros) : _mm256_set1_ps(1.0f);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    float* at = out + r * dim;
    __m256 value = _mm256_fmadd_ps(zero, _mm256_set1_ps(terms[r].plain_sum), _mm256_loadu_ps(at));
    value = _mm256_fmadd_ps(centered(sums[r], terms[r].offset_sum),
                            _mm256_mul_ps(scale, _mm256_set1_ps(terms[r].factor)), value);
    _mm256_storeu_ps(at, value);
  }
}

// Weights of `blocks` blocks times their token scales, as integers.
RowTerms fold_tokens(const SegmentView& segment, int first_block, int blocks, const float* weights, int16_t* out) {
  alignas(32) float folded[kPageTokens];
  const int first = first_block * kBlockTokens, tokens = blocks * kBlockTokens;
  for (int t = 0; t < tokens; t += kLaneCount) {
    const __m256 scale = segment.token_scales ? load_f16(segment.token_scales + first + t) : _mm256_set1_ps(1.0f);
    _mm256_store_ps(folded + t, _mm256_mul_ps(_mm256_loadu_ps(weights + first + t), scale));
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
  const __m256 total = _mm256_set1_ps(sum_row(weights, kPageTokens));
  for (int c = 0; c < view.mean_dim; c += kLaneCount) {
    _mm256_storeu_ps(out + c, _mm256_fmadd_ps(total, load_f16(view.mean + c), _mm256_loadu_ps(out + c)));
  }
}

RowTerms prepare_row(const SegmentView& segment, const float* x, int16_t* to) {
  return row_terms(quantize_row(x, segment.count, to), segment, sum_row(x, segment.count));
}

}  // namespace

Quantized quantize_row(const float* x, int n, int16_t* out) {
  __m256 magnitude = _mm256_setzero_ps();
  const __m256 sign = _mm256_set1_ps(-0.0f);
  for (int i = 0; i < n; i += kLaneCount) {
    magnitude = _mm256_max_ps(magnitude, _mm256_andnot_ps(sign, _mm256_loadu_ps(x + i)));
  }
  const float max = max_lanes(magnitude);
  // 255 * amplitude * n must stay below 2^31.
  const float amplitude = n <= 256 ? 32767.0f : 16383.0f;
  // Below this the inverse overflows; such rows contribute nothing a float sum would notice.
  const float inverse = max > 1e-30f ? amplitude / max : 0.0f;
  const __m256 factor = _mm256_set1_ps(inverse);
  const __m256i order = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));  // 0 2 1 3 in each group of 4
  __m256i sum = _mm256_setzero_si256();
  for (int i = 0; i < n; i += 2 * kLaneCount) {
    const bool both = i + kLaneCount < n;
    const __m256i low = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i), factor));
    const __m256i high =
        both ? _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i + kLaneCount), factor)) : _mm256_setzero_si256();
    sum = _mm256_add_epi32(sum, _mm256_add_epi32(low, high));
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), _MM_SHUFFLE(3, 1, 2, 0));
    const __m256i ordered = _mm256_shuffle_epi8(packed, order);
    if (both) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), ordered);
    } else {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm256_castsi256_si128(ordered));
    }
  }
  return {max / amplitude, sum_lanes(sum)};
}

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

}  // namespace kvasir::avx2
