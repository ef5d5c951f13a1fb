// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Where codes lie. Vectors come in blocks of 32, so that one instruction works on many vectors and no sum runs across
// lanes. A block is [channels / 16] chunks of 16 channels, and a chunk is 4 groups of 4 channels. The unit is the group
// of one vector: 4 codes in 4 neighbouring bytes, which is what a 4-way byte product (vpdpbusd) eats; the groups of 16
// vectors (one half of the block) fill 64 bytes, one vector register. The fields of each byte hold several groups:
//
//   bits  bytes of a chunk  lane = 4 (v mod 16) + (channel mod 4), h = v / 16 (half), i = group in the chunk
//   1      64               byte lane,                      shift 4 h + i
//   2     128               byte 64 h + lane,               shift 2 i
//   3     192               low two bits as for 2, then the high bit as for 1 at byte 128 + lane
//   4     256               byte 128 h + 64 (i / 2) + lane, shift 4 (i mod 2)
//
// The order is the same for every number of channels. Unused vectors of the last block are zero bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvasir {

inline constexpr int kBlockVectors = 32;
inline constexpr int kChunkChannels = 16;
inline constexpr int kGroupChannels = 4;
inline constexpr int kChunkGroups = kChunkChannels / kGroupChannels;

inline constexpr size_t chunk_bytes(int bits) {
  return size_t(kBlockVectors) * kChunkChannels * size_t(bits) / 8;
}
inline constexpr size_t block_bytes(int bits, int channels) {
  return chunk_bytes(bits) * size_t(channels / kChunkChannels);
}
inline constexpr int64_t blocks_of(int64_t vectors) {
  return (vectors + kBlockVectors - 1) / kBlockVectors;
}

// codes [channels], one byte each, into vector `v` of the block and back. What was there is replaced.
void write_codes(int bits, int channels, int v, const uint8_t* codes, uint8_t* block);
void read_codes(int bits, int channels, int v, const uint8_t* block, uint8_t* codes);

}  // namespace kvasir
