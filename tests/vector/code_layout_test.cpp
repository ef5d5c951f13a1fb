// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "vector/code_layout.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"

namespace kvasir {
namespace {

constexpr int kChannels[] = {16, 32, 48, 64, 304, 1536};

TEST(CodeLayout, EveryVectorComesBack) {
  for (const int bits : {1, 2, 3, 4})
    for (const int channels : kChannels) {
      SplitMix random(uint64_t(bits * 10000 + channels));
      std::vector<uint8_t> block(block_bytes(bits, channels)), codes(size_t(kBlockVectors * channels));
      for (uint8_t& code : codes) code = uint8_t(random.below(uint64_t{1} << bits));
      for (int v = 0; v < kBlockVectors; ++v)
        write_codes(bits, channels, v, &codes[size_t(v * channels)], block.data());
      std::vector<uint8_t> back(static_cast<size_t>(channels));
      for (int v = 0; v < kBlockVectors; ++v) {
        read_codes(bits, channels, v, block.data(), back.data());
        for (int j = 0; j < channels; ++j)
          ASSERT_EQ(back[size_t(j)], codes[size_t(v * channels + j)])
              << bits << " bits, vector " << v << ", channel " << j;
      }
    }
}

TEST(CodeLayout, FillsEveryBitOnce) {
  for (const int bits : {1, 2, 3, 4}) {
    constexpr int kChannelsHere = 32;
    const std::vector<uint8_t> ones(kChannelsHere, uint8_t((1 << bits) - 1)), zeros(kChannelsHere, 0);
    std::vector<uint8_t> block(block_bytes(bits, kChannelsHere));
    EXPECT_EQ(block.size() * 8, size_t(bits * kChannelsHere * kBlockVectors));
    for (int v = 0; v < kBlockVectors; ++v) write_codes(bits, kChannelsHere, v, ones.data(), block.data());
    for (const uint8_t byte : block) ASSERT_EQ(byte, 0xff) << bits;
    write_codes(bits, kChannelsHere, 17, zeros.data(), block.data());
    std::vector<uint8_t> back(kChannelsHere);
    for (int v = 0; v < kBlockVectors; ++v) {
      read_codes(bits, kChannelsHere, v, block.data(), back.data());
      EXPECT_EQ(back, v == 17 ? zeros : ones) << bits << " bits, vector " << v;
    }
  }
}

TEST(CodeLayout, BlocksAreWholeCacheLines) {
  for (const int bits : {1, 2, 3, 4})
    for (const int channels : kChannels) EXPECT_EQ(block_bytes(bits, channels) % 64, 0u);
  EXPECT_EQ(blocks_of(0), 0);
  EXPECT_EQ(blocks_of(1), 1);
  EXPECT_EQ(blocks_of(32), 1);
  EXPECT_EQ(blocks_of(33), 2);
}

}  // namespace
}  // namespace kvasir
