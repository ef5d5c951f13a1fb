// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Codecs: how one side (keys or values) of one KV head is stored. A codec is data, not code: a linear map,
// segments of mapped channels with their quantizers, and scales. One encoder and one decoder (codec/page_codec.h)
// serve every method of the field; a new method is a new row in the registry (codec/registry.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir {

inline constexpr int kPageTokens = 64;   // P: tokens in a packed page
inline constexpr int kBlockTokens = 32;  // tokens in a block: the span of channel scales and of one code cell
inline constexpr int kCellChannels = 8;  // channels in one code cell (32 tokens x 8 channels, codec/page_layout.h)

enum class Side : uint8_t { key, value };

// y = T x - m. Every map here is orthogonal, so T^-T = T and inner products survive: q.x = (Tq).(Tx).
enum class MapKind : uint8_t {
  identity,
  signed_fwht,  // (Hartley_m (x) Walsh-Hadamard_2^k) . diag(signs), d = m 2^k, m odd (transform/signed_fwht.h)
};

enum class QuantizerKind : uint8_t {
  raw_f16,    // 16 bits, no scale
  raw_bf16,   // 16 bits, no scale
  lloyd_max,  // 2^b levels optimal for N(0,1), rounded to an 8-bit grid (quant/codebook.h)
  uniform,    // 2^b equidistant levels
};

// Which numbers are stored beside the codes, and for which span of the page.
enum class ScaleSpan : uint8_t {
  none,
  token,    // one per token and segment
  channel,  // one per channel and block of 32 tokens
};

// How the stored scale is chosen. With c the chosen levels and y the mapped vector:
enum class ScaleFit : uint8_t {
  none,
  absmax,         // max|y| / largest level: nothing overflows
  min_max,        // asymmetric: zero = min, scale = (max - min) / (2^b - 1)
  norm,           // |y| / sqrt(d): TurboQuant's own choice (arXiv 2504.19874, Alg. 1)
  unbiased,       // |y|^2 / <c, y>: E <q, x^> = <q, x> (EDEN, arXiv 2604.18555)
  least_squares,  // <c, y> / <c, c>: least squared error for this vector
};

// A run of mapped channels that share a bit width, a quantizer and (ScaleSpan::token) one scale per token.
struct Segment {
  int first = 0;  // first mapped channel
  int count = 0;  // channels; a multiple of kCellChannels unless the quantizer is raw
  int bits = 16;  // 1..6, 8 or 16 (raw)
  QuantizerKind quantizer = QuantizerKind::raw_f16;

  bool operator==(const Segment&) const = default;
};

// One side of one (layer, KV head), complete: `encode` and `decode` need nothing else.
struct Codec {
  std::string name;       // registry name, for example "turbo4"
  Side side = Side::key;  // fixes the order of codes in a cell and, for turbo*, the scale
  int dim = 0;            // channels d
  MapKind map = MapKind::identity;
  // m of the map: the mean of the page's own 64 mapped vectors, stored in the page as f16. Removing it is exact for
  // keys (q.m is one number per page and head) and is what keeps models with key biases alive.
  bool center = false;
  ScaleSpan scale_span = ScaleSpan::none;
  ScaleFit scale_fit = ScaleFit::none;
  std::vector<Segment> segments;

  bool has_zero_point() const { return scale_fit == ScaleFit::min_max; }
  bool raw() const { return segments.size() == 1 && segments[0].bits == 16; }
  bool operator==(const Codec&) const = default;
};

// The codec of that registry name for `dim` channels.
// Throws Error: not_found (the message lists the names), unsupported (a head dim that the codec can't hold; the
// message lists what it can).
Codec make_codec(std::string_view name, Side side, int dim);

// Registry names in the order of the documentation's table.
std::vector<std::string> codec_names();

// Bytes of one page of 64 tokens: codes, scales, zero points, mean. The one place where sizes are computed; the
// pool, `kvasir plan` and every report call it.
size_t bytes_per_page(const Codec& codec);

// Bits per stored value with everything a page holds, 16-bit windows not counted: 8 bytes_per_page / (64 d).
double bits_per_value(const Codec& codec);

}  // namespace kvasir
