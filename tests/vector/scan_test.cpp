// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Every instruction set against the scalar twin: integers and codes to the last bit, float products within the rounding
// of their sums. Sizes lie around every group, chunk, batch and register edge. Out of scope: speed.
#include "vector/scan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/half.h"
#include "base/random.h"
#include "kvasir/error.h"
#include "tests/vector/samples.h"
#include "vector/code_table.h"

namespace kvasir {
namespace {

std::vector<ScanLevel> fast_levels() {
  std::vector<ScanLevel> levels;
  for (const ScanLevel level : {ScanLevel::avx2, ScanLevel::avx512})
    if (scan_available(level)) levels.push_back(level);
  return levels;
}

struct Sample {
  std::vector<uint8_t> codes;
  std::vector<int8_t> values;
  std::vector<int32_t> sums;
  CodeTable table;
  int channels, queries;

  // extreme: every code and query at the end of its range, where narrow sums would overflow.
  Sample(int bits, int channel_count, int query_count, bool extreme, VectorCode kind = VectorCode::scalar)
      : codes(block_bytes(bits, channel_count)),
        values(size_t(channel_count * query_count)),
        sums(size_t(query_count)),
        table(make_code_table(kind, bits)),
        channels(channel_count),
        queries(query_count) {
    SplitMix random(uint64_t(bits + 10 * channel_count + 100000 * query_count));
    for (uint8_t& byte : codes) byte = extreme ? uint8_t(0xff) : uint8_t(random.next());
    for (int8_t& value : values) value = extreme ? int8_t(-127) : int8_t(int(random.below(255)) - 127);
    for (int group = 0; group < channels / kGroupChannels; ++group)
      for (int q = 0; q < queries; ++q)
        for (int j = 0; j < kGroupChannels; ++j)
          sums[size_t(q)] += values[size_t((group * queries + q) * kGroupChannels + j)];
  }

  std::vector<int32_t> dots(const ScanKernels& kernels) const {
    const CodeBlock block = {table.bits, channels, table.trellis(), table.offset, table.level.data(), codes.data()};
    std::vector<int32_t> out(size_t(queries * kBlockVectors), -1);
    kernels.block_dots(block, {queries, values.data(), sums.data()}, out.data());
    return out;
  }
};

TEST(Scan, DotsAreTheSameOnEveryLevel) {
  for (const ScanLevel level : fast_levels())
    for (const int bits : {1, 2, 3, 4})
      for (const int channels : {16, 32, 48, 64, 80, 112, 304, 1536})
        for (int queries = 1; queries <= kBatchQueries; ++queries) {
          const Sample sample(bits, channels, queries, false);
          ASSERT_EQ(sample.dots(scan_kernels(level)), sample.dots(scalar_scan()))
              << to_string(level) << ", " << bits << " bits, " << channels << " channels, " << queries << " queries";
        }
}

TEST(Scan, TrellisDotsAreTheSameOnEveryLevel) {
  for (const ScanLevel level : fast_levels())
    for (const int bits : {2, 4})
      for (const int channels : {16, 32, 48, 64, 80, 112, 304, 1536})
        for (int queries = 1; queries <= kBatchQueries; ++queries) {
          const Sample sample(bits, channels, queries, false, VectorCode::trellis);
          ASSERT_EQ(sample.dots(scan_kernels(level)), sample.dots(scalar_scan()))
              << to_string(level) << ", " << bits << " bits, " << channels << " channels, " << queries << " queries";
        }
}

TEST(Scan, DotsDontOverflow) {
  for (const int bits : {1, 4}) {
    const Sample sample(bits, 65536, 1, true);
    const int64_t expected =
        int64_t(65536) * -127 * (int(sample.table.level[size_t(sample.table.entries() - 1)]) - 128);
    for (const int32_t dot : sample.dots(scalar_scan())) ASSERT_EQ(dot, expected);
    for (const ScanLevel level : fast_levels()) EXPECT_EQ(sample.dots(scan_kernels(level)), sample.dots(scalar_scan()));
  }
}

TEST(Scan, CodesAreTheSameOnEveryLevel) {
  for (const ScanLevel level : fast_levels())
    for (const int bits : {1, 2, 3, 4})
      for (const int n : {16, 32, 48, 1536}) {
        const CodeTable table = make_code_table(VectorCode::scalar, bits);
        std::vector<float> y = vector_test::normal_vectors(1, n, uint64_t(n + bits));
        // Values right on the edges, and the floats on both sides of them.
        for (int e = 0; e + 1 < table.entries() && 3 * e + 2 < n; ++e) {
          const float edge = table.edges[size_t(e)];
          y[size_t(3 * e)] = edge;
          y[size_t(3 * e + 1)] = std::nextafter(edge, 1e9f);
          y[size_t(3 * e + 2)] = std::nextafter(edge, -1e9f);
        }
        std::vector<uint8_t> expected(static_cast<size_t>(n)), got(static_cast<size_t>(n));
        for (const float factor : {1.0f, 0.7f}) {
          scalar_scan().encode(y.data(), factor, n, table.edges.data(), table.entries() - 1, expected.data());
          scan_kernels(level).encode(y.data(), factor, n, table.edges.data(), table.entries() - 1, got.data());
          ASSERT_EQ(got, expected) << to_string(level) << ", " << bits << " bits, " << n;
        }
      }
}

// |error| of a sum of n products in any order is at most n eps sum |a_j b_j|; sqrt(n) is what rounding really does, and
// four times that is never seen.
void expect_close(float got, double exact, double magnitude, int n, const std::string& what) {
  const double tolerance = 4 * std::sqrt(double(n)) * 0x1p-24 * magnitude + 1e-30;
  EXPECT_NEAR(got, exact, tolerance) << what;
}

TEST(Scan, FloatProductsAgreeWithDouble) {
  std::vector<ScanLevel> levels = fast_levels();
  levels.push_back(ScanLevel::scalar);
  for (const ScanLevel level : levels)
    for (const int n : {1, 7, 8, 9, 31, 32, 33, 40, 300, 1536}) {
      const ScanKernels& kernels = scan_kernels(level);
      const std::vector<float> a = vector_test::normal_vectors(9, n, 1), b = vector_test::normal_vectors(5, n, 2);
      std::vector<uint16_t> halves(static_cast<size_t>(n));
      for (int j = 0; j < n; ++j) halves[size_t(j)] = float_to_f16(a[size_t(j)]);
      const auto sums = [&](int i, int k, bool half) {
        double exact = 0, magnitude = 0;
        for (int j = 0; j < n; ++j) {
          const float left = half ? f16_to_float(halves[size_t(j)]) : a[size_t(i * n + j)];
          const double product = double(left) * double(b[size_t(k * n + j)]);
          exact += product;
          magnitude += std::abs(product);
        }
        return std::pair(exact, magnitude);
      };
      const std::string what = to_string(level) + ", " + std::to_string(n);
      const auto [plain, plain_magnitude] = sums(0, 0, false);
      expect_close(kernels.dot(a.data(), b.data(), n), plain, plain_magnitude, n, what);
      const auto [half, half_magnitude] = sums(0, 0, true);
      expect_close(kernels.dot_f16(halves.data(), b.data(), n), half, half_magnitude, n, what);
      for (const int rows : {1, 3, 4, 5, 9})
        for (const int columns : {1, 2, 3, 5}) {
          std::vector<float> tile(size_t(rows * columns), -1e9f);
          kernels.dot_tile(a.data(), rows, b.data(), columns, n, tile.data());
          for (int i = 0; i < rows; ++i)
            for (int k = 0; k < columns; ++k) {
              const auto [exact, magnitude] = sums(i, k, false);
              expect_close(tile[size_t(i * columns + k)], exact, magnitude, n, what + " tile");
            }
        }
    }
}

TEST(Scan, UnknownLevelsAreRefused) {
  EXPECT_TRUE(scan_available(ScanLevel::scalar));
  for (const ScanLevel level : {ScanLevel::avx2, ScanLevel::avx512})
    if (!scan_available(level)) {
      EXPECT_THROW(scan_kernels(level), Error);
    }
}

}  // namespace
}  // namespace kvasir
