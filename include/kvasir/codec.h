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
inline constexpr int kMaxHeadDim = 512;  // channels of a head that attention can work on

enum class Side : uint8_t { key, value };

// y = T x - m. All but the fitted maps are orthogonal, so T^-T = T and inner products survive: q.x = (Tq).(Tx).
// A fitted map is y = T (x - mu) with its own T^-T for queries: q.(x - mu) = (T^-T q).y.
enum class MapKind : uint8_t {
  identity,
  signed_fwht,  // (Hartley_m (x) Walsh-Hadamard_2^k) . diag(signs), d = m 2^k, m odd (transform/signed_fwht.h)
  haar,         // a dense rotation, uniform over all of them: the paper's own, d^2 steps (transform/rotation.h)
  fitted,       // one matrix per KV head, fitted to the model by a calibration (codec/fitted_map.h)
};

enum class QuantizerKind : uint8_t {
  raw_f16,    // 16 bits, no scale
  raw_bf16,   // 16 bits, no scale
  lloyd_max,  // 2^b levels optimal for N(0,1), rounded to an 8-bit grid (quant/codebook.h)
  uniform,    // 2^b equidistant levels
  // 2^b levels optimal for one channel of a random unit vector of `count` channels (arXiv 2504.19874, Lemma 1), which
  // is what N(0,1) stands for; rounded like lloyd_max.
  lloyd_max_sphere,
  // QJL (arXiv 2504.19874, Alg. 2): the signs of a random projection of what the segments before left over. As long as
  // those are `dim` channels, this segment is `dim` more: the map is T stacked on S T.
  residual_sign,
  // Trellis-coded for N(0,1) (quant/trellis_code.h): each value chooses among 2^b of many levels, and the choices
  // before decide which. A third less squared error than lloyd_max; 1..4 bits, ScaleSpan::token.
  trellis,
};

// S of residual_sign.
enum class ProjectionKind : uint8_t {
  orthogonal,  // a Haar rotation: (pi/2 - 1) of the residual's energy as variance
  gaussian,    // independent normal entries, as the paper has it: pi/2 of it
};

// Which numbers are stored beside the codes, and for which span of the page.
enum class ScaleSpan : uint8_t {
  none,
  token,    // one per token and segment
  channel,  // one per channel and block of 32 tokens
};

enum class ScaleFormat : uint8_t {
  f16,
  log8,  // 8 bits, steps of 2^(1/16) about 1 (quant/log_scale.h): for fitted maps, whose segments have unit energy
};

// How the stored scale is chosen. With c the chosen levels and y the mapped vector:
enum class ScaleFit : uint8_t {
  none,
  absmax,   // max|y| / largest level: nothing overflows
  min_max,  // asymmetric: zero = min, scale = (max - min) / (2^b - 1)
  norm,     // |y| / sqrt(d): TurboQuant's own choice (arXiv 2504.19874, Alg. 1)
  matched,  // |y| / |c|: |x^| = |x|, what practice calls norm correction
  // |y|^2 / <c, y>: E <q, x^> = <q, x> (EDEN, arXiv 2604.18555); with 8-bit scales within half a step of it
  unbiased,
  least_squares,  // <c, y> / <c, c>: least squared error for this vector
};

// A run of mapped channels that share a bit width, a quantizer and (ScaleSpan::token) one scale per token.
struct Segment {
  int first = 0;  // first mapped channel
  int count = 0;  // channels; a multiple of kCellChannels unless the quantizer is raw
  int bits = 16;  // 1..6, 8 or 16 (raw); 1 for residual_sign
  QuantizerKind quantizer = QuantizerKind::raw_f16;

  bool operator==(const Segment&) const = default;
};

// One side of one (layer, KV head), complete: `encode` and `decode` need nothing else.
struct Codec {
  std::string name;       // registry name with its options, for example "turbo4" or "turbo4:scale=norm"
  Side side = Side::key;  // fixes the order of codes in a cell and, for turbo*, the scale
  int dim = 0;            // channels d
  MapKind map = MapKind::identity;
  // m of the map: the mean of the page's own 64 mapped vectors, stored in the page as f16. Removing it is exact for
  // keys (q.m is one number per page and head) and is what keeps models with key biases alive.
  bool center = false;
  ScaleSpan scale_span = ScaleSpan::none;
  ScaleFit scale_fit = ScaleFit::none;
  ScaleFormat scale_format = ScaleFormat::f16;
  std::vector<Segment> segments;
  uint64_t seed = 0;  // of the rotation and the projection; 0 is the project's own
  // The channels of most energy come first, as many as the first segment has, and each segment is rotated by itself.
  // Which they are is decided by a head's first packed page and written into every page (one bit a channel).
  bool sort_channels = false;
  ProjectionKind projection = ProjectionKind::orthogonal;

  // Channels after the map: `dim`; twice that with a stage of signs behind another; fewer where a fitted map has
  // channels that aren't worth a bit.
  int mapped_dim() const;
  bool has_zero_point() const { return scale_fit == ScaleFit::min_max; }
  bool raw() const { return segments.size() == 1 && segments[0].bits == 16; }
  bool operator==(const Codec&) const = default;
};

// The codec of that registry name for `dim` channels. Options follow the name, each after a colon:
//
//   scale=norm|matched|unbiased|least-squares   the stored scale (what has levels: turbo*, turboprod2..4)
//   rotation=signed-fwht|haar                   the random rotation (turbo*, q8)
//   seed=N                                      of rotation and projection, 1 or more
//   quantizer=lloyd-max|trellis                 each channel's nearest level, or a trellis (levels of 1 to 4 bits)
//   codebook=normal|sphere                      levels for N(0,1) or for the exact density at this head dim (lloyd-max)
//   projection=orthogonal|gaussian              of the signs (turboprod*)
//   split=on|off                                the loud quarter of the channels rotated and scaled apart (turbo1..5)
//   mean=on|off                                 removal of the page's mean (any codec but f16, bf16 and turboprod1)
//
// as in "turbo3:rotation=haar:seed=7". `Codec::name` holds them in this order, without those that change nothing.
// Throws Error: not_found (the message lists the names), invalid_argument (an option that isn't there, or that this
// codec doesn't have), unsupported (a head dim that the codec can't hold; the message lists what it can).
Codec make_codec(std::string_view name, Side side, int dim);
// Whether the name (options may follow) stands for a codec that only a calibration can make: `make_codec` refuses it.
bool is_fitted_codec(std::string_view name);
// The same without the mean removal that the name doesn't ask for (--no-protect).
Codec make_unprotected_codec(std::string_view name, Side side, int dim);

// Registry names in the order of the documentation's table: of what `make_codec` makes, and of what needs a
// calibration.
std::vector<std::string> codec_names();
std::vector<std::string> fitted_codec_names();

// Bytes of one page of 64 tokens: codes, scales, zero points, mean, channel order. The one place where sizes are
// computed; the pool, `kvasir plan` and every report call it.
size_t bytes_per_page(const Codec& codec);

// Bits per stored value with everything a page holds, 16-bit windows not counted: 8 bytes_per_page / (64 d).
double bits_per_value(const Codec& codec);

}  // namespace kvasir
