// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// From packed codes to levels: one load, shift and mask a vector, then a table of up to 64 levels in four registers.
#include "attention/kernels-neon.h"
#include "attention/lanes-neon.h"
#include "attention/packed_loops.h"

namespace kvasir::neon {

namespace {

uint8x16x4_t load_table(const uint8_t* level, int bits) {
  uint8_t bytes[64] = {};
  std::memcpy(bytes, level, size_t(1) << bits);
  return {{vld1q_u8(bytes), vld1q_u8(bytes + 16), vld1q_u8(bytes + 32), vld1q_u8(bytes + 48)}};
}

template <int Bits>
inline uint8x16_t look_up(uint8x16_t code, const uint8x16x4_t& table) {
  if constexpr (Bits <= 4) return vqtbl1q_u8(table.val[0], code);
  const uint8x16x2_t half = {{table.val[0], table.val[1]}};
  return Bits == 5 ? vqtbl2q_u8(half, code) : vqtbl4q_u8(table, code);
}

template <int Bits>
void unpack_cells(const uint8_t* packed, const uint8_t* level, int cells, uint8_t* out) {
  const uint8x16x4_t table = level ? load_table(level, Bits) : uint8x16x4_t{};
  for (int cell = 0; cell < cells; ++cell, packed += kVectorCodes * Bits, out += kCellCodes) {
    each_vector([&](auto v) {
      constexpr int V = decltype(v)::value;
      Vector x = load_codes<Bits, V>(packed);
      if (level) {
        for (uint8x16_t& half : x.half) half = look_up<Bits>(half, table);
      }
      store_vector(out + V * kVectorCodes, x);
    });
  }
}

// 8-bit codes need no unpacking, and every 8-bit codebook of quant/codebook.h is its own level; a table is looked up
// byte by byte.
void unpack_bytes(const uint8_t* packed, const uint8_t* level, int cells, uint8_t* out) {
  const int bytes = cells * kCellCodes;
  std::memcpy(out, packed, size_t(bytes));
  for (int i = 0; level && i < bytes; ++i) out[i] = level[out[i]];
}

}  // namespace

void unpack_levels(const SegmentView& segment, int block, uint8_t* out) {
  if (segment.trellis) return unpack_trellis(segment, block, out);
  unpack_block(segment, block, [&](auto bits, const uint8_t* packed, int cells) {
    constexpr int kBits = decltype(bits)::value;
    if constexpr (kBits == 8) {
      unpack_bytes(packed, segment.level, cells, out);
    } else {
      unpack_cells<kBits>(packed, segment.level, cells, out);
    }
  });
}

}  // namespace kvasir::neon
