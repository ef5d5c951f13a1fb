// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The one page layout that encoder, decoder and kernels agree on. A page holds one side (K or V) of 64 tokens of one
// KV head:
//
//   codes of segment 0 | codes of segment 1 | ... | scales | zero points | mean | channel order
//
// Codes of a packed segment: [2 blocks of 32 tokens][count / 8 cells], each cell 32 tokens x 8 channels = 256 codes in
// 32 b bytes. A cell is 8 vectors of 32 codes; which code sits where depends on the side, so that after unpacking the
// lanes are what the kernel sums over:
//
//   keys:   vector (c / 4) * 4 + t / 8, byte (t % 8) * 4 + c % 4   -> 32-bit lane = token, its bytes = 4 channels
//   values: vector t / 4,               byte c * 4 + t % 4         -> 32-bit lane = channel, its bytes = 4 tokens
//
// The b bits of a code are split into planes of 8, 4, 2 or 1 bits (3 = 2 + 1, 5 = 4 + 1, 6 = 4 + 2), the low plane
// first. A plane of w bits is w words of 32 bytes; byte i of word j holds, from its low bits up, the w-bit fields of
// byte i of vectors j * (8 / w), j * (8 / w) + 1, ... So one 32-byte load, a shift and a mask yield a whole vector.
//
// Codes of a trellis lie the same way; what they stand for depends on those before (codec/trellis_segment.h).
// Raw segments (16 bit): [64 tokens][count] halves.
// Scales and zero points (f16): ScaleSpan::token: [segments][64 tokens]; ScaleSpan::channel: [2 blocks][dim].
// ScaleFormat::log8: scales are bytes, [segments][64 tokens].
// Mean (f16): [mean_dim], in the mapped basis (signs of a residual have none).
// Channel order (Codec::sort_channels): bit c % 8 of byte c / 8 says whether channel c belongs to the first segment.
// The order is fixed, whatever the vector length of the machine: pages are written to disk and read elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/half.h"
#include "codec/fitted_map.h"
#include "kvasir/codec.h"
#include "quant/codebook.h"
#include "quant/trellis_code.h"

namespace kvasir {

class Rotation;

inline constexpr int kVectorCodes = 32;  // codes in a vector = bytes after unpacking
inline constexpr int kCellVectors = 8;   // vectors in a cell
inline constexpr int kCellCodes = kVectorCodes * kCellVectors;
inline constexpr int kBlocksPerPage = kPageTokens / kBlockTokens;  // 2
static_assert(kBlockTokens * kCellChannels == kCellCodes);

struct SegmentLayout {
  int first = 0, count = 0, bits = 16;
  bool signs = false;  // of the residual's projection
  // What the codes stand for; both are null for raw segments.
  const Codebook* codebook = nullptr;
  const TrellisCode* trellis = nullptr;
  HalfKind half = HalfKind::f16;  // raw segments
  size_t codes = 0;               // offset in the page

  bool raw() const { return bits == 16; }
  int cells() const { return count / kCellChannels; }
  size_t cell_bytes() const { return size_t(32) * size_t(bits); }
  // Offset of the codes of `cell` (8 channels from first + 8 cell) in `block`.
  size_t cell(int block, int cell) const {
    return codes + (size_t(block) * size_t(cells()) + size_t(cell)) * cell_bytes();
  }
};

// Channels that are rotated together.
struct RotatedRun {
  int first, count;
  const Rotation* rotation;
};

// Bytes of the channel order: a bit a channel, whole halves, since pages hold halves.
constexpr size_t order_bytes(int dim) {
  return size_t(dim + 15) / 16 * 2;
}

// A Codec with every offset worked out: what kernels receive.
struct SideLayout {
  Codec codec;
  std::vector<SegmentLayout> segments;
  std::vector<RotatedRun> runs;              // of channels in their order; empty if the map is the identity
  std::shared_ptr<const FittedMaps> fitted;  // one map per KV head; null unless MapKind::fitted
  // Of keys: T^-1 [dim, mapped_dim] of each head. A mapped query is a sum of its rows, as an output is of `dual`'s.
  std::vector<std::vector<float>> query_rows;
  // What keys are stored without; whoever encodes a page removes it first, and adds it to what is decoded. Or null.
  std::shared_ptr<const TurningMean> turning;
  const Rotation* projection = nullptr;               // S of residual_sign
  double sign_scale = 0;                              // what a sign stands for, over the residual's norm
  size_t scales = 0, zeros = 0, mean = 0, order = 0;  // offsets; meaningful where the codec has them
  size_t bytes = 0;                                   // bytes_per_page(codec)

  // `fitted` belongs to codecs with MapKind::fitted.
  explicit SideLayout(const Codec& codec, std::shared_ptr<const FittedMaps> fitted = {});
  SideLayout() = default;

  int dim() const { return codec.dim; }
  int mapped_dim() const { return codec.mapped_dim(); }
  // Channels of the page's mean: those of the map, without the signs of a residual.
  int mean_dim() const { return codec.map == MapKind::fitted ? codec.mapped_dim() : codec.dim; }
  bool raw() const { return codec.raw(); }
  // f16 arrays in a page.
  const uint16_t* token_scales(const std::byte* page, int segment) const {
    return halves(page, scales) + segment * kPageTokens;
  }
  const uint8_t* log_scales(const std::byte* page, int segment) const {
    return reinterpret_cast<const uint8_t*>(page + scales) + segment * kPageTokens;
  }
  const uint16_t* token_zeros(const std::byte* page, int segment) const {
    return halves(page, zeros) + segment * kPageTokens;
  }
  const uint16_t* channel_scales(const std::byte* page, int block) const {
    return halves(page, scales) + block * codec.dim;
  }
  const uint16_t* channel_zeros(const std::byte* page, int block) const {
    return halves(page, zeros) + block * codec.dim;
  }
  const uint16_t* means(const std::byte* page) const { return halves(page, mean); }
  const uint16_t* raw_rows(const std::byte* page) const { return halves(page, segments[0].codes); }

 private:
  static const uint16_t* halves(const std::byte* page, size_t offset) {
    return reinterpret_cast<const uint16_t*>(page + offset);
  }
};

// Where the code of token t (0..31) and channel c (0..7) of a cell sits.
struct CodePlace {
  int vector, byte;
};
constexpr CodePlace code_place(Side side, int t, int c) {
  return side == Side::key ? CodePlace{(c / 4) * 4 + t / 8, (t % 8) * 4 + c % 4} : CodePlace{t / 4, c * 4 + t % 4};
}

// Widths of the planes of a b-bit code, low plane first; count is 1 or 2.
struct Planes {
  int count;
  int width[2];
};
constexpr Planes planes_of(int bits) {
  switch (bits) {
    case 3: return {2, {2, 1}};
    case 5: return {2, {4, 1}};
    case 6: return {2, {4, 2}};
    default: return {1, {bits, 0}};
  }
}

// Packs and unpacks one cell: codes as [8 vectors][32 bytes].
void pack_cell(int bits, const uint8_t* codes, std::byte* cell);
void unpack_cell(int bits, const std::byte* cell, uint8_t* codes);

}  // namespace kvasir
