// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The table of codecs. A row says what is stored, never how: see kvasir/codec.h for the vocabulary.
#include <algorithm>
#include <functional>
#include <utility>

#include "kvasir/codec.h"
#include "kvasir/error.h"
#include "transform/signed_fwht.h"

namespace kvasir {
namespace {

constexpr int kMaxDim = 512;

std::vector<Segment> one_segment(int dim, int bits, QuantizerKind quantizer) {
  return {{0, dim, bits, quantizer}};
}

// Runs of `size` channels, the last one shorter where the head dim asks for it.
std::vector<Segment> groups(int dim, int size, int bits, QuantizerKind quantizer) {
  std::vector<Segment> segments;
  for (int first = 0; first < dim; first += size)
    segments.push_back({first, std::min(size, dim - first), bits, quantizer});
  return segments;
}

Codec raw(Side side, int dim, QuantizerKind kind) {
  Codec codec;
  codec.side = side;
  codec.dim = dim;
  codec.segments = one_segment(dim, 16, kind);
  return codec;
}

// Symmetric int8 behind a rotation: one scale has to serve the whole head, so the rotation removes the outlier
// channels that would set it.
Codec q8(Side side, int dim) {
  Codec codec;
  codec.side = side;
  codec.dim = dim;
  codec.map = MapKind::signed_fwht;
  codec.center = side == Side::key;
  codec.scale_span = ScaleSpan::token;
  codec.scale_fit = ScaleFit::absmax;
  codec.segments = one_segment(dim, 8, QuantizerKind::uniform);
  return codec;
}

// KIVI (arXiv 2402.02750): keys per channel over 32 tokens, values per token over 32 channels, asymmetric.
Codec kivi(Side side, int dim, int bits) {
  Codec codec;
  codec.side = side;
  codec.dim = dim;
  codec.scale_fit = ScaleFit::min_max;
  if (side == Side::key) {
    codec.scale_span = ScaleSpan::channel;
    codec.segments = one_segment(dim, bits, QuantizerKind::uniform);
  } else {
    codec.scale_span = ScaleSpan::token;
    codec.segments = groups(dim, 32, bits, QuantizerKind::uniform);
  }
  return codec;
}

// TurboQuant (arXiv 2504.19874, Alg. 1): rotation, Lloyd-Max, one scale a token. The scale is unbiased for keys, so
// that scores are right on average, and least squares for values, whose errors average out in the sum.
Codec turbo(Side side, int dim, int bits) {
  Codec codec;
  codec.side = side;
  codec.dim = dim;
  codec.map = MapKind::signed_fwht;
  codec.center = side == Side::key;
  codec.scale_span = ScaleSpan::token;
  codec.scale_fit = side == Side::key ? ScaleFit::unbiased : ScaleFit::least_squares;
  codec.segments = one_segment(dim, bits, QuantizerKind::lloyd_max);
  return codec;
}

using Make = std::function<Codec(Side, int)>;

const std::vector<std::pair<std::string, Make>>& table() {
  static const std::vector<std::pair<std::string, Make>> rows = {
      {"f16", [](Side s, int d) { return raw(s, d, QuantizerKind::raw_f16); }},
      {"bf16", [](Side s, int d) { return raw(s, d, QuantizerKind::raw_bf16); }},
      {"q8", [](Side s, int d) { return q8(s, d); }},
      {"kivi2", [](Side s, int d) { return kivi(s, d, 2); }},
      {"kivi4", [](Side s, int d) { return kivi(s, d, 4); }},
      {"turbo2", [](Side s, int d) { return turbo(s, d, 2); }},
      {"turbo3", [](Side s, int d) { return turbo(s, d, 3); }},
      {"turbo4", [](Side s, int d) { return turbo(s, d, 4); }},
  };
  return rows;
}

std::string joined_names() {
  std::string names;
  for (const std::string& name : codec_names()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

}  // namespace

std::vector<std::string> codec_names() {
  std::vector<std::string> names;
  for (const auto& row : table()) names.push_back(row.first);
  return names;
}

Codec make_codec(std::string_view name, Side side, int dim) {
  const auto row = std::find_if(table().begin(), table().end(), [&](const auto& r) { return r.first == name; });
  if (row == table().end())
    throw Error(ErrorCode::not_found, "no codec '" + std::string(name) + "'; --kv takes one of " + joined_names());
  if (dim <= 0 || dim % kCellChannels != 0 || dim > kMaxDim || !SignedFwht::supports(dim))
    throw Error(ErrorCode::unsupported, "codec " + std::string(name) + " can't hold heads of " + std::to_string(dim) +
                                            " channels: multiples of 8 up to 512 work");
  Codec codec = row->second(side, dim);
  codec.name = row->first;
  return codec;
}

}  // namespace kvasir
