// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The table of codecs. A row says what is stored, never how: see kvasir/codec.h for the vocabulary.
#include <algorithm>
#include <functional>
#include <utility>

#include "codec/codec_options.h"
#include "codec/loud_channels.h"
#include "kvasir/codec.h"
#include "kvasir/error.h"
#include "transform/signed_fwht.h"

namespace kvasir {
namespace {

constexpr int kMaxDenseDim = 2048;  // a dense rotation takes d^3 steps to make
constexpr int kMaxDim = 8192;       // attention takes heads of up to 512 (cache/layer_codecs.cpp)

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

// The paper's fractional bits (section 4.3): a quarter of the channels, those of most energy, get one bit more, and
// each part has its own rotation and scale.
Codec turbo_fraction(Side side, int dim, int bits) {
  Codec codec = turbo(side, dim, bits);
  split_loud_channels(codec, 1);
  return codec;
}

// TurboQuant's second stage (Alg. 2): one bit less for the levels, and the signs of a projection of what they left
// over, which makes inner products unbiased whatever the first stage did: so its scale is the one that leaves least
// over, not the norm. (The norm at 2 bits leaves .26 of a vector with one channel, whose rotation is flat.)
Codec turbo_product(Side side, int dim, int bits) {
  Codec codec = turbo(side, dim, bits);
  codec.scale_fit = ScaleFit::least_squares;
  codec.segments.clear();
  if (bits > 1) codec.segments.push_back({0, dim, bits - 1, QuantizerKind::lloyd_max});
  codec.segments.push_back({bits > 1 ? dim : 0, dim, 1, QuantizerKind::residual_sign});
  // The mean lives beside the levels; signs alone have no basis to keep it in.
  if (bits == 1) codec.center = false;
  return codec;
}

using Make = std::function<Codec(Side, int)>;

const std::vector<std::pair<std::string, Make>>& table() {
  static const std::vector<std::pair<std::string, Make>> rows = [] {
    std::vector<std::pair<std::string, Make>> list = {
        {"f16", [](Side s, int d) { return raw(s, d, QuantizerKind::raw_f16); }},
        {"bf16", [](Side s, int d) { return raw(s, d, QuantizerKind::raw_bf16); }},
        {"q8", [](Side s, int d) { return q8(s, d); }},
        {"kivi2", [](Side s, int d) { return kivi(s, d, 2); }},
        {"kivi4", [](Side s, int d) { return kivi(s, d, 4); }},
    };
    for (int bits = 1; bits <= 5; ++bits) {
      list.emplace_back("turbo" + std::to_string(bits), [bits](Side s, int d) { return turbo(s, d, bits); });
      if (bits >= 2 && bits <= 4)
        list.emplace_back("turbo" + std::to_string(bits) + ".5",
                          [bits](Side s, int d) { return turbo_fraction(s, d, bits); });
    }
    for (int bits = 1; bits <= 4; ++bits)
      list.emplace_back("turboprod" + std::to_string(bits),
                        [bits](Side s, int d) { return turbo_product(s, d, bits); });
    return list;
  }();
  return rows;
}

constexpr std::string_view kFittedNames[] = {"oscar2",    "spectral2",   "spectral2.5",
                                             "spectral3", "spectral3.5", "spectral4"};

std::string joined_names() {
  std::string names;
  for (const std::string& name : codec_names()) names += (names.empty() ? "" : ", ") + name;
  for (const std::string_view name : kFittedNames) names += ", " + std::string(name);
  return names;
}

}  // namespace

std::vector<std::string> codec_names() {
  std::vector<std::string> names;
  for (const auto& row : table()) names.push_back(row.first);
  return names;
}

std::vector<std::string> fitted_codec_names() {
  return {std::begin(kFittedNames), std::end(kFittedNames)};
}

bool is_fitted_codec(std::string_view name) {
  return std::ranges::find(kFittedNames, name.substr(0, name.find(':'))) != std::end(kFittedNames);
}

Codec make_codec(std::string_view name, Side side, int dim) {
  const size_t colon = std::min(name.find(':'), name.size());
  const std::string_view method = name.substr(0, colon);
  if (is_fitted_codec(name))
    throw Error(ErrorCode::unsupported, "codec " + std::string(method) +
                                            " is fitted to a model, and there is none here; where there is one, it "
                                            "comes from kvasir calibrate");
  const auto row = std::find_if(table().begin(), table().end(), [&](const auto& r) { return r.first == method; });
  if (row == table().end())
    throw Error(ErrorCode::not_found,
                "no codec '" + std::string(method) + "'; --kv takes one of auto, " + joined_names());
  if (dim <= 0 || dim % kCellChannels != 0 || dim > kMaxDim || !SignedFwht::supports(dim))
    throw Error(ErrorCode::unsupported, "codec " + std::string(method) + " can't hold " + std::to_string(dim) +
                                            " channels: multiples of 8 up to " + std::to_string(kMaxDim) +
                                            " whose odd factor is at most 63 work");
  Codec codec = row->second(side, dim);
  codec.name = row->first;
  if (colon < name.size()) apply_codec_options(name.substr(colon + 1), codec);
  const bool dense = codec.map == MapKind::haar || codec.segments.back().quantizer == QuantizerKind::residual_sign;
  if (dense && dim > kMaxDenseDim)
    throw Error(ErrorCode::unsupported, "codec " + codec.name + " needs a dense matrix, which is made for up to " +
                                            std::to_string(kMaxDenseDim) + " channels, not " + std::to_string(dim) +
                                            ": choose rotation=signed-fwht, and turbo instead of turboprod");
  return codec;
}

Codec make_unprotected_codec(std::string_view name, Side side, int dim) {
  Codec codec = make_codec(name, side, dim);
  if (codec.center && name.find(":mean=") == std::string_view::npos) {
    codec.center = false;
    codec.name += ":mean=off";
  }
  return codec;
}

}  // namespace kvasir
