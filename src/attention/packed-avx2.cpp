// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Scores and weighted sums over packed pages, in integers: levels are bytes, queries and weights become 16-bit
// integers with one scale a row, products are summed in 32 bits without rounding. Stored scales enter once per sum.
#include "attention/kernels-avx2.h"
#include "attention/lanes-avx2.h"

namespace kvasir::avx2 {

namespace {

constexpr int kQuad = 4;  // bytes of a 32-bit lane: 4 channels of a token or 4 tokens of a channel
constexpr int kCellLevels = kVectorCodes * kCellVectors;
constexpr int kRowGroup = 4;  // rows that share one read of the levels: 8 accumulators with 2 streams
constexpr int kLaneCount = 8;

// Two 16-bit coefficients in every lane, straight from memory.
inline __m256i load_pair(const int16_t* coefficients) {
  typedef int Pair __attribute__((may_alias, aligned(alignof(int16_t))));
  return _mm256_set1_epi32(*reinterpret_cast<const Pair*>(coefficients));
}

template <int R, int S>
inline void add_products(const __m256i (&x)[S], const int16_t* pairs, int row_stride, __m256i (&sums)[R][S]) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const __m256i pair = load_pair(pairs + r * row_stride);
#pragma GCC unroll 2
    for (int s = 0; s < S; ++s) {
      sums[r][s] = _mm256_add_epi32(sums[r][s], _mm256_madd_epi16(x[s], pair));
      // Fixes the order of the additions: compilers that reassociate them run out of registers and spill sums.
      asm("" : "+x"(sums[r][s]));
    }
  }
}

// sums[r][s], lane l = sum over quads and their 4 bytes of level * coefficient. Quad i of stream s is the vector at
// levels + s * stream_stride + i * quad_stride. Even and odd bytes of a lane are multiplied apart, so that the two
// products of a madd already belong to the same lane: hence coefficients in the order 0 2 1 3.
template <int R, int S>
inline void sum_levels(const uint8_t* levels, int quad_stride, int stream_stride, int quads,
                       const int16_t* coefficients, int row_stride, __m256i (&sums)[R][S]) {
  const __m256i even_mask = _mm256_set1_epi16(0xff);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int s = 0; s < S; ++s) sums[r][s] = _mm256_setzero_si256();
  }
  for (int i = 0; i < quads; ++i) {
    __m256i x[S], even[S];
#pragma GCC unroll 2
    for (int s = 0; s < S; ++s) {
      x[s] = load_bytes(levels + i * quad_stride + s * stream_stride);
      even[s] = _mm256_and_si256(x[s], even_mask);
    }
    add_products(even, coefficients + i * kQuad, row_stride, sums);
#pragma GCC unroll 2
    for (int s = 0; s < S; ++s) x[s] = _mm256_srli_epi16(x[s], 8);
    add_products(x, coefficients + i * kQuad + 2, row_stride, sums);
  }
}

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

// Rows of one segment ready for sum_levels.
struct RowTerms {
  float factor;     // scale of the integers times the codebook's step
  int offset_sum;   // codebook offset times the sum of the integers
  float plain_sum;  // what multiplies a token's zero point (scores), or is added to all channels (gather)
};

// The two kernels below are kept out of line so that each has the registers for itself.

// --- scores ---

template <int R>
[[gnu::noinline]] void score_rows(const SegmentView& segment, int block, const int16_t* query, const RowTerms* terms,
                                  float* scores, const uint8_t* levels) {
  constexpr int kOctets = kBlockTokens / kLaneCount;
  for (int octet = 0; octet < kOctets; octet += 2) {
    __m256i sums[R][2];
    sum_levels<R, 2>(levels + octet * kVectorCodes, kOctets * kVectorCodes, kVectorCodes, segment.count / kQuad, query,
                     segment.count, sums);
#pragma GCC unroll 2
    for (int s = 0; s < 2; ++s) {
      const int token = block * kBlockTokens + (octet + s) * kLaneCount;
      const __m256 scale = segment.token_scales ? load_f16(segment.token_scales + token) : _mm256_set1_ps(1.0f);
      const __m256 zero = segment.token_zeros ? load_f16(segment.token_zeros + token) : _mm256_setzero_ps();
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        float* at = scores + r * kPageTokens + token;
        __m256 score = _mm256_fmadd_ps(zero, _mm256_set1_ps(terms[r].plain_sum), _mm256_loadu_ps(at));
        score = _mm256_fmadd_ps(centered(sums[r][s], terms[r].offset_sum),
                                _mm256_mul_ps(scale, _mm256_set1_ps(terms[r].factor)), score);
        _mm256_storeu_ps(at, score);
      }
    }
  }
}

void score_block(const SegmentView& segment, int block, const int16_t* query, const RowTerms* terms, int rows,
                 float* scores, uint8_t* levels) {
  unpack_levels(segment, block, 0, segment.count / kCellChannels, levels, kCellLevels);
  for (int r = 0; r < rows; r += kRowGroup) {
    const int16_t* from = query + r * segment.count;
    float* to = scores + r * kPageTokens;
    switch (rows - r) {
      case 1: score_rows<1>(segment, block, from, terms + r, to, levels); break;
      case 2: score_rows<2>(segment, block, from, terms + r, to, levels); break;
      case 3: score_rows<3>(segment, block, from, terms + r, to, levels); break;
      default: score_rows<kRowGroup>(segment, block, from, terms + r, to, levels); break;
    }
  }
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
  return {quantized.scale * segment.step, quantized.sum * segment.offset, 0.0f};
}

void score_segment(const SegmentView& segment, int dim, const float* q, int rows, float* scores,
                   KernelScratch& scratch) {
  RowTerms terms[kPageTokens];
  const bool by_channel = segment.channel_scales[0] != nullptr;
  for (int block = 0; block < kBlocksPerPage; ++block) {
    if (block == 0 || by_channel) {
      for (int r = 0; r < rows; ++r) {
        const float* from = q + r * dim + segment.first;
        int16_t* query = scratch.query + r * segment.count;
        if (by_channel) {
          terms[r] = fold_channels(segment, block, from, scores + r * kPageTokens, query);
          continue;
        }
        const Quantized quantized = quantize_row(from, segment.count, query);
        const float plain_sum = segment.token_zeros ? sum_row(from, segment.count) : 0.0f;
        terms[r] = {quantized.scale * segment.step, quantized.sum * segment.offset, plain_sum};
      }
    }
    score_block(segment, block, scratch.query, terms, rows, scores, scratch.levels);
  }
}

// --- weighted sums ---

// What turns the sums of 8 channels into values; null pointers where a codec has no such numbers.
struct ChannelTerms {
  const uint16_t* scales;
  const uint16_t* zeros;
};

template <int R, int S>
[[gnu::noinline]] void gather_cells(const uint8_t* levels, int quads, int stream_stride, const int16_t* weights,
                                    const RowTerms* terms, const ChannelTerms& channels, float* out, int dim) {
  __m256i sums[R][S];
  sum_levels<R, S>(levels, kVectorCodes, stream_stride, quads, weights, kPageTokens, sums);
#pragma GCC unroll 2
  for (int s = 0; s < S; ++s) {
    const int c = s * kLaneCount;
    const __m256 scale = channels.scales ? load_f16(channels.scales + c) : _mm256_set1_ps(1.0f);
    const __m256 zero = channels.zeros ? load_f16(channels.zeros + c) : _mm256_set1_ps(1.0f);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      float* at = out + r * dim + c;
      __m256 value = _mm256_fmadd_ps(zero, _mm256_set1_ps(terms[r].plain_sum), _mm256_loadu_ps(at));
      value = _mm256_fmadd_ps(centered(sums[r][s], terms[r].offset_sum),
                              _mm256_mul_ps(scale, _mm256_set1_ps(terms[r].factor)), value);
      _mm256_storeu_ps(at, value);
    }
  }
}

template <int S>
void gather_rows(const uint8_t* levels, int quads, const int16_t* weights, const RowTerms* terms, int rows,
                 const ChannelTerms& channels, float* out, int dim) {
  const int stride = quads * kVectorCodes;
  for (int r = 0; r < rows; r += kRowGroup) {
    const int16_t* from = weights + r * kPageTokens;
    float* to = out + r * dim;
    switch (rows - r) {
      case 1: gather_cells<1, S>(levels, quads, stride, from, terms + r, channels, to, dim); break;
      case 2: gather_cells<2, S>(levels, quads, stride, from, terms + r, channels, to, dim); break;
      case 3: gather_cells<3, S>(levels, quads, stride, from, terms + r, channels, to, dim); break;
      default: gather_cells<kRowGroup, S>(levels, quads, stride, from, terms + r, channels, to, dim); break;
    }
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
  return {quantized.scale * segment.step, quantized.sum * segment.offset, plain_sum};
}

// The blocks of a page share one integer scale and are summed together, unless channel scales tell them apart.
void gather_segment(const SegmentView& segment, int dim, const float* weights, int rows, float* out,
                    KernelScratch& scratch) {
  RowTerms terms[kPageTokens];
  const int blocks = segment.channel_scales[0] ? 1 : kBlocksPerPage;
  const int cells = segment.count / kCellChannels;
  const int cell_levels = blocks * kCellLevels;
  const int room = int(sizeof scratch.levels) / cell_levels;
  for (int block = 0; block < kBlocksPerPage; block += blocks) {
    for (int r = 0; r < rows; ++r) {
      terms[r] = fold_tokens(segment, block, blocks, weights + r * kPageTokens, scratch.query + r * kPageTokens);
    }
    for (int done = 0; done < cells; done += room) {
      const int now = cells - done < room ? cells - done : room;
      for (int b = 0; b < blocks; ++b) {
        unpack_levels(segment, block + b, done, now, scratch.levels + b * kCellLevels, size_t(cell_levels));
      }
      for (int cell = 0; cell < now; cell += 2) {
        const int c = (done + cell) * kCellChannels;
        const ChannelTerms channels = {segment.channel_scales[block] ? segment.channel_scales[block] + c : nullptr,
                                       segment.channel_zeros[block] ? segment.channel_zeros[block] + c : nullptr};
        const uint8_t* levels = scratch.levels + cell * cell_levels;
        const int quads = blocks * kCellVectors;
        float* to = out + segment.first + c;
        if (cell + 1 < now) {
          gather_rows<2>(levels, quads, scratch.query, terms, rows, channels, to, dim);
        } else {
          gather_rows<1>(levels, quads, scratch.query, terms, rows, channels, to, dim);
        }
      }
    }
  }
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

void score_page(const SideLayout& layout, const std::byte* page, const float* q, int rows, float* scores,
                KernelScratch& scratch) {
  const PageView view = view_page(layout, page);
  for (int r = 0; r < rows; ++r) {
    const __m256 base = _mm256_set1_ps(view.mean ? dot_f16(q + r * view.dim, view.mean, view.mean_dim) : 0.0f);
    for (int t = 0; t < kPageTokens; t += kLaneCount) _mm256_storeu_ps(scores + r * kPageTokens + t, base);
  }
  for (int s = 0; s < view.segments; ++s) {
    const SegmentView segment = view_segment(layout, page, s, scratch.scales);
    if (segment.raw) {
      add_score_halves(segment.half, segment.raw, segment.count, kPageTokens, segment.count, q + segment.first,
                       view.dim, rows, scores);
    } else {
      score_segment(segment, view.dim, q, rows, scores, scratch);
    }
  }
}

void gather_page(const SideLayout& layout, const std::byte* page, const float* weights, int rows, float* out,
                 KernelScratch& scratch) {
  const PageView view = view_page(layout, page);
  if (view.mean) {
    for (int r = 0; r < rows; ++r) {
      const __m256 total = _mm256_set1_ps(sum_row(weights + r * kPageTokens, kPageTokens));
      for (int c = 0; c < view.mean_dim; c += kLaneCount) {
        float* at = out + r * view.dim + c;
        _mm256_storeu_ps(at, _mm256_fmadd_ps(total, load_f16(view.mean + c), _mm256_loadu_ps(at)));
      }
    }
  }
  for (int s = 0; s < view.segments; ++s) {
    const SegmentView segment = view_segment(layout, page, s, scratch.scales);
    if (segment.raw) {
      add_gather_halves(segment.half, segment.raw, segment.count, kPageTokens, segment.count, weights, rows,
                        out + segment.first, view.dim);
    } else {
      gather_segment(segment, view.dim, weights, rows, out, scratch);
    }
  }
}

}  // namespace kvasir::avx2
