// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "vector/code_layout.h"

#include <cstring>

namespace kvasir {
namespace {

// The 4 bytes of a group are handled as one word; every shift stays inside its byte, so byte order doesn't matter.
struct Field {
  size_t byte;
  int shift;
};

Field one_bit(int v, int group) {
  return {4 * size_t(v % 16), 4 * (v / 16) + group};
}
Field two_bits(int v, int group) {
  return {64 * size_t(v / 16) + 4 * size_t(v % 16), 2 * group};
}
Field four_bits(int v, int group) {
  return {128 * size_t(v / 16) + 64 * size_t(group / 2) + 4 * size_t(v % 16), 4 * (group % 2)};
}

uint32_t get(const uint8_t* chunk, Field field, uint32_t mask) {
  uint32_t word;
  std::memcpy(&word, chunk + field.byte, sizeof word);
  return (word >> field.shift) & mask;
}
void put(uint8_t* chunk, Field field, uint32_t mask, uint32_t codes) {
  uint32_t word;
  std::memcpy(&word, chunk + field.byte, sizeof word);
  word = (word & ~(mask << field.shift)) | (codes << field.shift);
  std::memcpy(chunk + field.byte, &word, sizeof word);
}

constexpr uint32_t kOne = 0x01010101u, kTwo = 0x03030303u, kFour = 0x0f0f0f0fu;
constexpr size_t kHighPlane = 128;  // of a 3-bit chunk

}  // namespace

void write_codes(int bits, int channels, int v, const uint8_t* codes, uint8_t* block) {
  for (int chunk = 0; chunk < channels / kChunkChannels; ++chunk, block += chunk_bytes(bits)) {
    for (int group = 0; group < kChunkGroups; ++group, codes += kGroupChannels) {
      uint32_t word;
      std::memcpy(&word, codes, sizeof word);
      if (bits == 1) put(block, one_bit(v, group), kOne, word);
      if (bits == 2 || bits == 3) put(block, two_bits(v, group), kTwo, word & kTwo);
      if (bits == 3) put(block + kHighPlane, one_bit(v, group), kOne, (word >> 2) & kOne);
      if (bits == 4) put(block, four_bits(v, group), kFour, word);
    }
  }
}

void read_codes(int bits, int channels, int v, const uint8_t* block, uint8_t* codes) {
  for (int chunk = 0; chunk < channels / kChunkChannels; ++chunk, block += chunk_bytes(bits)) {
    for (int group = 0; group < kChunkGroups; ++group, codes += kGroupChannels) {
      uint32_t word = 0;
      if (bits == 1) word = get(block, one_bit(v, group), kOne);
      if (bits == 2 || bits == 3) word = get(block, two_bits(v, group), kTwo);
      if (bits == 3) word |= get(block + kHighPlane, one_bit(v, group), kOne) << 2;
      if (bits == 4) word = get(block, four_bits(v, group), kFour);
      std::memcpy(codes, &word, sizeof word);
    }
  }
}

}  // namespace kvasir
