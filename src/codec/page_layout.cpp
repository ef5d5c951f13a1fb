// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "codec/page_layout.h"

#include "kvasir/error.h"

namespace kvasir {
namespace {

const Codebook* codebook_of(const Codec& codec, const Segment& segment) {
  switch (segment.quantizer) {
    case QuantizerKind::raw_f16:
    case QuantizerKind::raw_bf16: return nullptr;
    case QuantizerKind::lloyd_max: return &lloyd_max_codebook(segment.bits);
    case QuantizerKind::uniform:
      return codec.has_zero_point() ? &uniform_codebook(segment.bits) : &symmetric_codebook(segment.bits);
  }
  throw Error(ErrorCode::internal, "unknown quantizer");
}

// Masks the w-bit field of a byte.
constexpr uint8_t mask(int width) {
  return uint8_t((1u << width) - 1u);
}

}  // namespace

SideLayout::SideLayout(const Codec& codec) : codec(codec) {
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
    out.codebook = codebook_of(codec, segment);
    out.half = segment.quantizer == QuantizerKind::raw_bf16 ? HalfKind::bf16 : HalfKind::f16;
    out.codes = bytes;
    bytes += size_t(kPageTokens) * size_t(segment.count) * size_t(segment.bits) / 8;
    segments.push_back(out);
  }
  if (next != codec.dim) throw Error(ErrorCode::internal, "codec " + codec.name + ": segments must cover all channels");
  const size_t span = codec.scale_span == ScaleSpan::none    ? 0
                      : codec.scale_span == ScaleSpan::token ? segments.size() * kPageTokens
                                                             : size_t(kBlocksPerPage) * size_t(codec.dim);
  scales = bytes;
  bytes += 2 * span;
  zeros = bytes;
  if (codec.has_zero_point()) bytes += 2 * span;
  mean = bytes;
  if (codec.center) bytes += 2 * size_t(codec.dim);
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
    const int width = planes.width[p], per_word = 8 / width;
    for (int word = 0; word < width; ++word, out += kVectorCodes)
      for (int i = 0; i < kVectorCodes; ++i) {
        unsigned byte = 0;
        for (int n = 0; n < per_word; ++n)
          byte |= unsigned((codes[(word * per_word + n) * kVectorCodes + i] >> shift) & mask(width)) << (n * width);
        out[i] = uint8_t(byte);
      }
    shift += width;
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
