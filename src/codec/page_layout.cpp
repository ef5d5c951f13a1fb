// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "codec/page_layout.h"

#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

#include "kvasir/error.h"
#include "transform/rotation.h"

namespace kvasir {
namespace {

const Codebook* codebook_of(const Codec& codec, const Segment& segment) {
  switch (segment.quantizer) {
    case QuantizerKind::raw_f16:
    case QuantizerKind::raw_bf16:
    case QuantizerKind::trellis: return nullptr;
    case QuantizerKind::lloyd_max: return &lloyd_max_codebook(segment.bits);
    case QuantizerKind::lloyd_max_sphere: return &lloyd_max_codebook(segment.bits, segment.count);
    case QuantizerKind::residual_sign: return &sign_codebook();
    case QuantizerKind::uniform:
      return codec.has_zero_point() ? &uniform_codebook(segment.bits) : &symmetric_codebook(segment.bits);
  }
  throw Error(ErrorCode::internal, "unknown quantizer");
}

// The project's own seed, unless the codec brings one. The projection must not repeat the rotation.
uint64_t rotation_seed(const Codec& codec) {
  return codec.seed != 0 ? codec.seed : SignedFwht::kDefaultSeed;
}
uint64_t projection_seed(const Codec& codec) {
  return rotation_seed(codec) ^ 0x9e3779b97f4a7c15ull;
}

RotationKind rotation_kind(const Codec& codec) {
  return codec.map == MapKind::haar ? RotationKind::haar : RotationKind::signed_fwht;
}

const Rotation* projection_of(const Codec& codec) {
  if (codec.segments.back().quantizer != QuantizerKind::residual_sign) return nullptr;
  // Dense even behind a fast rotation: a second signed FWHT sees too much of the first, and scores came out 1.7e-3 too
  // large at 3 bits (7 standard errors); a Haar rotation's are right.
  const RotationKind kind = codec.projection == ProjectionKind::gaussian ? RotationKind::gaussian : RotationKind::haar;
  return &Rotation::of(kind, codec.dim, projection_seed(codec));
}

// E <r^, r> = |r|^2 (arXiv 2504.19874, Alg. 2). The paper's sqrt(pi / 2 d) is exact for a Gaussian S; for an orthogonal
// one it is the limit of 1 / (d m), m the mean of |z_1| for a random unit vector z.
double sign_scale_of(const Codec& codec) {
  const double d = codec.dim;
  if (codec.projection == ProjectionKind::gaussian) return std::sqrt(std::numbers::pi / (2 * d));
  const double mean = std::exp(std::lgamma(d / 2) - std::lgamma((d + 1) / 2)) / std::sqrt(std::numbers::pi);
  return 1 / (d * mean);
}

std::vector<RotatedRun> runs_of(const Codec& codec) {
  std::vector<RotatedRun> runs;
  if (codec.map == MapKind::identity || codec.map == MapKind::fitted) return runs;
  const auto add = [&](int first, int count) {
    runs.push_back({first, count, &Rotation::of(rotation_kind(codec), count, rotation_seed(codec))});
  };
  if (!codec.sort_channels) {
    add(0, codec.dim);
  } else {
    for (const Segment& segment : codec.segments) add(segment.first, segment.count);
  }
  return runs;
}

// Masks the w-bit field of a byte.
constexpr uint8_t mask(int width) {
  return uint8_t((1u << width) - 1u);
}

// One plane of a cell. Eight codes at a time: fields never cross a byte.
template <int Width>
void pack_plane(const uint8_t* codes, int shift, uint8_t* out) {
  constexpr int kPerWord = 8 / Width, kAtOnce = kVectorCodes / int(sizeof(uint64_t));
  constexpr uint64_t kMask = 0x0101010101010101ull * mask(Width);
  for (int word = 0; word < Width; ++word, out += kVectorCodes) {
    uint64_t packed[kAtOnce] = {};
    for (int n = 0; n < kPerWord; ++n, codes += kVectorCodes) {
      uint64_t eight[kAtOnce];
      std::memcpy(eight, codes, sizeof eight);
      for (int i = 0; i < kAtOnce; ++i) packed[i] |= (eight[i] >> shift & kMask) << (n * Width);
    }
    std::memcpy(out, packed, sizeof packed);
  }
}

std::vector<float> transposed(const std::vector<float>& matrix, int rows, int columns) {
  std::vector<float> result(matrix.size());
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) result[size_t(c * rows + r)] = matrix[size_t(r * columns + c)];
  return result;
}

}  // namespace

SideLayout::SideLayout(const Codec& codec, std::shared_ptr<const FittedMaps> maps)
    : codec(codec), fitted(std::move(maps)) {
  int next = 0;
  for (const Segment& segment : codec.segments) {
    const bool is_raw = segment.bits == 16;
    if (segment.first != next || segment.count <= 0 || (!is_raw && segment.count % kCellChannels != 0))
      throw Error(ErrorCode::internal, "codec " + codec.name + ": segments must cover the channels in cells of 8");
    next += segment.count;
    SegmentLayout out;
    out.first = segment.first;
    out.count = segment.count;
    out.bits = segment.bits;
    out.signs = segment.quantizer == QuantizerKind::residual_sign;
    out.codebook = codebook_of(codec, segment);
    if (segment.quantizer == QuantizerKind::trellis) {
      out.trellis = &trellis_code(segment.bits);
      if (codec.scale_span != ScaleSpan::token || codec.has_zero_point())
        throw Error(ErrorCode::internal, "codec " + codec.name + ": a trellis has one scale a token");
    }
    out.half = segment.quantizer == QuantizerKind::raw_bf16 ? HalfKind::bf16 : HalfKind::f16;
    out.codes = bytes;
    bytes += size_t(kPageTokens) * size_t(segment.count) * size_t(segment.bits) / 8;
    segments.push_back(out);
  }
  const bool fitted_dims = codec.map == MapKind::fitted && next <= codec.dim;
  if (next != codec.mapped_dim() || (next != codec.dim && next != 2 * codec.dim && !fitted_dims))
    throw Error(ErrorCode::internal, "codec " + codec.name + ": segments must cover all channels");
  if (fitted)
    for (const FittedMap& map : *fitted)
      if (map.dim != codec.dim || map.mapped_dim != next)
        throw Error(ErrorCode::internal, "codec " + codec.name + ": a fitted map of the wrong size");
  if (fitted && codec.side == Side::key)
    for (const FittedMap& map : *fitted) query_rows.push_back(transposed(map.dual, map.mapped_dim, map.dim));
  runs = runs_of(codec);
  projection = projection_of(codec);
  if (projection != nullptr) sign_scale = sign_scale_of(codec);
  const size_t span = codec.scale_span == ScaleSpan::none    ? 0
                      : codec.scale_span == ScaleSpan::token ? segments.size() * kPageTokens
                                                             : size_t(kBlocksPerPage) * size_t(codec.dim);
  scales = bytes;
  bytes += codec.scale_format == ScaleFormat::log8 ? span : 2 * span;
  zeros = bytes;
  if (codec.has_zero_point()) bytes += 2 * span;
  mean = bytes;
  if (codec.center) bytes += 2 * size_t(mean_dim());
  order = bytes;
  if (codec.sort_channels) bytes += order_bytes(codec.dim);
}

int Codec::mapped_dim() const {
  return segments.empty() ? 0 : segments.back().first + segments.back().count;
}

size_t bytes_per_page(const Codec& codec) {
  return SideLayout(codec).bytes;
}

double bits_per_value(const Codec& codec) {
  return 8.0 * double(bytes_per_page(codec)) / (double(kPageTokens) * double(codec.dim));
}

void pack_cell(int bits, const uint8_t* codes, std::byte* cell) {
  auto* out = reinterpret_cast<uint8_t*>(cell);
  const Planes planes = planes_of(bits);
  int shift = 0;
  for (int p = 0; p < planes.count; ++p) {
    switch (planes.width[p]) {
      case 1: pack_plane<1>(codes, shift, out); break;
      case 2: pack_plane<2>(codes, shift, out); break;
      case 4: pack_plane<4>(codes, shift, out); break;
      default: pack_plane<8>(codes, shift, out);
    }
    out += planes.width[p] * kVectorCodes;
    shift += planes.width[p];
  }
}

void unpack_cell(int bits, const std::byte* cell, uint8_t* codes) {
  const auto* in = reinterpret_cast<const uint8_t*>(cell);
  const Planes planes = planes_of(bits);
  for (int i = 0; i < kCellVectors * kVectorCodes; ++i) codes[i] = 0;
  int shift = 0;
  for (int p = 0; p < planes.count; ++p) {
    const int width = planes.width[p], per_word = 8 / width;
    for (int word = 0; word < width; ++word, in += kVectorCodes)
      for (int i = 0; i < kVectorCodes; ++i)
        for (int n = 0; n < per_word; ++n)
          codes[(word * per_word + n) * kVectorCodes + i] |= uint8_t(((in[i] >> (n * width)) & mask(width)) << shift);
    shift += width;
  }
}

}  // namespace kvasir
