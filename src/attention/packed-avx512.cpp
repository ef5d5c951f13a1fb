// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Scores and weighted sums over packed pages with VNNI: one instruction multiplies 64 levels (unsigned bytes) by signed
// bytes and adds them up by fours. Queries and weights keep 16 bits: as x = 256 high + low with both halves signed
// bytes, so two such instructions take the place of the AVX2 kernel's 16-bit products, with the same precision.
#include "attention/kernels-avx2.h"
#include "attention/kernels-avx512.h"
#include "attention/lanes-avx512.h"

namespace kvasir::avx512 {

namespace {

constexpr int kQuad = 4;  // bytes of a 32-bit lane: 4 channels of a token or 4 tokens of a channel
constexpr int kCellLevels = kVectorCodes * kCellVectors;
constexpr int kRowGroup = 4;  // rows that share one read of the levels: 16 accumulators with 2 streams and 2 halves
constexpr int kLaneCount = 16;
constexpr float kHigh = 256.0f;

// Rows of one segment as signed bytes, ready to be multiplied with levels.
struct RowTerms {
  float factor;                 // scale of the integers times the codebook's step
  int offset_high, offset_low;  // codebook offset times the sum of the integers
  float plain_sum;              // what multiplies a token's zero point (scores), or is added to all channels (gather)
};

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
  // Below this the inverse overflows; such rows contribute nothing a float sum would notice.
  const __m512 factor = _mm512_set1_ps(max > 1e-30f ? kAmplitude / max : 0.0f);
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

// Both sums with the codebook's offset taken off, put together. Exact until the floats.
inline __m512 joined(__m512i high, __m512i low, const RowTerms& terms) {
  const __m512 upper = _mm512_cvtepi32_ps(_mm512_sub_epi32(high, _mm512_set1_epi32(terms.offset_high)));
  const __m512 lower = _mm512_cvtepi32_ps(_mm512_sub_epi32(low, _mm512_set1_epi32(terms.offset_low)));
  return _mm512_fmadd_ps(upper, _mm512_set1_ps(kHigh), lower);
}

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

// Rows of signed bytes: [rows][2][count], high before low.
template <int R>
[[gnu::noinline]] void score_rows(const SegmentView& segment, int block, const int8_t* query, const RowTerms* terms,
                                  float* scores, const uint8_t* levels) {
  const int count = segment.count;
  __m512i high[R][2], low[R][2];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int s = 0; s < 2; ++s) high[r][s] = low[r][s] = _mm512_setzero_si512();
  }
  for (int c = 0; c < count; c += kQuad, levels += kQuad * kVectorCodes) {
    const __m512i first = load_bytes(levels), second = load_bytes(levels + 64);  // 16 tokens each
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const __m512i upper = load_quad(query + 2 * r * count + c), lower = load_quad(query + (2 * r + 1) * count + c);
      high[r][0] = _mm512_dpbusd_epi32(high[r][0], first, upper);
      high[r][1] = _mm512_dpbusd_epi32(high[r][1], second, upper);
      low[r][0] = _mm512_dpbusd_epi32(low[r][0], first, lower);
      low[r][1] = _mm512_dpbusd_epi32(low[r][1], second, lower);
    }
  }
#pragma GCC unroll 2
  for (int s = 0; s < 2; ++s) {
    const int token = block * kBlockTokens + s * kLaneCount;
    const __m512 scale = segment.token_scales ? load_f16(segment.token_scales + token) : _mm512_set1_ps(1.0f);
    const __m512 zero = segment.token_zeros ? load_f16(segment.token_zeros + token) : _mm512_setzero_ps();
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      float* at = scores + r * kPageTokens + token;
      __m512 score = _mm512_fmadd_ps(zero, _mm512_set1_ps(terms[r].plain_sum), _mm512_loadu_ps(at));
      score = _mm512_fmadd_ps(joined(high[r][s], low[r][s], terms[r]),
                              _mm512_mul_ps(scale, _mm512_set1_ps(terms[r].factor)), score);
      _mm512_storeu_ps(at, score);
    }
  }
}

void score_block(const SegmentView& segment, int block, const int8_t* query, const RowTerms* terms, int rows,
                 float* scores, uint8_t* levels) {
  unpack_levels(segment, block, 0, segment.count / kCellChannels, levels, kCellLevels);
  for (int r = 0; r < rows; r += kRowGroup) {
    const int8_t* from = query + 2 * r * segment.count;
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
RowTerms fold_channels(const SegmentView& segment, int block, const float* q, float* scores, int8_t* query) {
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
  return row_terms(quantize_row(folded, segment.count, query, query + segment.count), segment, 0.0f);
}

void score_segment(const SegmentView& segment, int dim, const float* q, int rows, float* scores,
                   KernelScratch& scratch) {
  RowTerms terms[kPageTokens];
  auto* bytes = reinterpret_cast<int8_t*>(scratch.query);
  const bool by_channel = segment.channel_scales[0] != nullptr;
  for (int block = 0; block < kBlocksPerPage; ++block) {
    if (block == 0 || by_channel) {
      for (int r = 0; r < rows; ++r) {
        const float* from = q + r * dim + segment.first;
        int8_t* query = bytes + 2 * r * segment.count;
        if (by_channel) {
          terms[r] = fold_channels(segment, block, from, scores + r * kPageTokens, query);
          continue;
        }
        const float plain_sum = segment.token_zeros ? sum_row(from, segment.count) : 0.0f;
        terms[r] = row_terms(quantize_row(from, segment.count, query, query + segment.count), segment, plain_sum);
      }
    }
    score_block(segment, block, bytes, terms, rows, scores, scratch.levels);
  }
}

// --- weighted sums ---

// A vector of levels holds 8 channels twice, for 4 tokens and for the 4 after them: so does one of weights.
constexpr int kPairTokens = 8;
constexpr int kPairBytes = 64;

// What turns the sums of 8 channels into values; null pointers where a codec has no such numbers.
struct ChannelTerms {
  const uint16_t* scales;
  const uint16_t* zeros;
};

inline __m256 joined_halves(__m512i high, __m512i low, const RowTerms& terms) {
  const __m256i upper = _mm256_add_epi32(_mm512_castsi512_si256(high), _mm512_extracti64x4_epi64(high, 1));
  const __m256i lower = _mm256_add_epi32(_mm512_castsi512_si256(low), _mm512_extracti64x4_epi64(low, 1));
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(upper, _mm256_set1_epi32(terms.offset_high))),
                         _mm256_set1_ps(kHigh),
                         _mm256_cvtepi32_ps(_mm256_sub_epi32(lower, _mm256_set1_epi32(terms.offset_low))));
}

// weights: [rows][2][pairs][64 bytes], high before low.
template <int R, int S>
[[gnu::noinline]] void gather_cells(const uint8_t* levels, int pairs, const int8_t* weights, const RowTerms* terms,
                                    const ChannelTerms& channels, float* out, int dim) {
  __m512i high[R][S], low[R][S];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int s = 0; s < S; ++s) high[r][s] = low[r][s] = _mm512_setzero_si512();
  }
  const int half = pairs * kPairBytes;
  for (int at = 0; at < half; at += kPairBytes) {
    __m512i x[S];
#pragma GCC unroll 2
    for (int s = 0; s < S; ++s) x[s] = load_bytes(levels + s * half + at);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const __m512i upper = load_bytes(weights + 2 * r * half + at),
                    lower = load_bytes(weights + (2 * r + 1) * half + at);
#pragma GCC unroll 2
      for (int s = 0; s < S; ++s) {
        high[r][s] = _mm512_dpbusd_epi32(high[r][s], x[s], upper);
        low[r][s] = _mm512_dpbusd_epi32(low[r][s], x[s], lower);
      }
    }
  }
#pragma GCC unroll 2
  for (int s = 0; s < S; ++s) {
    const int c = s * kCellChannels;
    const __m256 scale = channels.scales ? load_f16_8(channels.scales + c) : _mm256_set1_ps(1.0f);
    const __m256 zero = channels.zeros ? load_f16_8(channels.zeros + c) : _mm256_set1_ps(1.0f);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      float* at = out + r * dim + c;
      __m256 value = _mm256_fmadd_ps(zero, _mm256_set1_ps(terms[r].plain_sum), _mm256_loadu_ps(at));
      value = _mm256_fmadd_ps(joined_halves(high[r][s], low[r][s], terms[r]),
                              _mm256_mul_ps(scale, _mm256_set1_ps(terms[r].factor)), value);
      _mm256_storeu_ps(at, value);
    }
  }
}

template <int S>
void gather_rows(const uint8_t* levels, int pairs, const int8_t* weights, const RowTerms* terms, int rows,
                 const ChannelTerms& channels, float* out, int dim) {
  for (int r = 0; r < rows; r += kRowGroup) {
    const int8_t* from = weights + 2 * r * pairs * kPairBytes;
    float* to = out + r * dim;
    switch (rows - r) {
      case 1: gather_cells<1, S>(levels, pairs, from, terms + r, channels, to, dim); break;
      case 2: gather_cells<2, S>(levels, pairs, from, terms + r, channels, to, dim); break;
      case 3: gather_cells<3, S>(levels, pairs, from, terms + r, channels, to, dim); break;
      default: gather_cells<kRowGroup, S>(levels, pairs, from, terms + r, channels, to, dim); break;
    }
  }
}

// Spreads [tokens] bytes over pairs: 8 lanes of tokens t .. t + 3, 8 of the 4 after them.
void spread_weights(const int8_t* bytes, int tokens, int8_t* out) {
  for (int t = 0; t < tokens; t += kPairTokens, out += kPairBytes) {
    const __m512i pair = _mm512_mask_blend_epi32(0xff00, load_quad(bytes + t), load_quad(bytes + t + kQuad));
    _mm512_storeu_si512(out, pair);
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
  alignas(64) int8_t high[kPageTokens], low[kPageTokens];
  const Quantized row = quantize_row(folded, tokens, high, low);
  spread_weights(high, tokens, out);
  spread_weights(low, tokens, out + tokens / kPairTokens * kPairBytes);
  return row_terms(row, segment, plain_sum);
}

// The blocks of a page share one integer scale and are summed together, unless channel scales tell them apart.
void gather_segment(const SegmentView& segment, int dim, const float* weights, int rows, float* out,
                    KernelScratch& scratch) {
  RowTerms terms[kPageTokens];
  auto* bytes = reinterpret_cast<int8_t*>(scratch.query);
  const int blocks = segment.channel_scales[0] ? 1 : kBlocksPerPage;
  const int pairs = blocks * kBlockTokens / kPairTokens;
  const int cells = segment.count / kCellChannels;
  const int cell_levels = blocks * kCellLevels;
  const int room = int(sizeof scratch.levels) / cell_levels;
  for (int block = 0; block < kBlocksPerPage; block += blocks) {
    for (int r = 0; r < rows; ++r) {
      terms[r] = fold_tokens(segment, block, blocks, weights + r * kPageTokens, bytes + 2 * r * pairs * kPairBytes);
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
        float* to = out + segment.first + c;
        if (cell + 1 < now) {
          gather_rows<2>(levels, pairs, bytes, terms, rows, channels, to, dim);
        } else {
          gather_rows<1>(levels, pairs, bytes, terms, rows, channels, to, dim);
        }
      }
    }
  }
}

// Spread weights of 64 rows of a page fill the scratch exactly.
static_assert(sizeof KernelScratch::query >= size_t(64) * 2 * (kPageTokens / kPairTokens) * kPairBytes);

}  // namespace

void score_page(const SideLayout& layout, const std::byte* page, const float* q, int rows, float* scores,
                KernelScratch& scratch) {
  const PageView view = view_page(layout, page);
  for (int r = 0; r < rows; ++r) {
    const __m512 base = _mm512_set1_ps(view.mean ? dot_f16(q + r * view.dim, view.mean, view.mean_dim) : 0.0f);
    for (int t = 0; t < kPageTokens; t += kLaneCount) _mm512_storeu_ps(scores + r * kPageTokens + t, base);
  }
  for (int s = 0; s < view.segments; ++s) {
    const SegmentView segment = view_segment(layout, page, s, scratch.scales);
    if (segment.raw) {
      avx2::add_score_halves(segment.half, segment.raw, segment.count, kPageTokens, segment.count, q + segment.first,
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
      for (int c = 0; c < view.mean_dim; c += 8) {
        float* at = out + r * view.dim + c;
        _mm256_storeu_ps(at, _mm256_fmadd_ps(total, load_f16_8(view.mean + c), _mm256_loadu_ps(at)));
      }
    }
  }
  for (int s = 0; s < view.segments; ++s) {
    const SegmentView segment = view_segment(layout, page, s, scratch.scales);
    if (segment.raw) {
      avx2::add_gather_halves(segment.half, segment.raw, segment.count, kPageTokens, segment.count, weights, rows,
                              out + segment.first, view.dim);
    } else {
      gather_segment(segment, view.dim, weights, rows, out, scratch);
    }
  }
}

}  // namespace kvasir::avx512
