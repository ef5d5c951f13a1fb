// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Maps of 64 vectors at once against one after the other, to the last bit.
#include "transform/page_columns.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/base/normal_floats.h"
#include "transform/rotation.h"

namespace kvasir {
namespace {

using test::normal_floats;

TEST(PageColumns, RotationsAreThoseOfEachVector) {
  for (const PageColumns* columns : all_page_columns())
    for (const RotationKind kind : {RotationKind::signed_fwht, RotationKind::haar, RotationKind::gaussian})
      for (const int dim : {8, 16, 24, 64, 72, 80, 96, 112, 120, 128, 160, 256, 504}) {
        if (kind != RotationKind::signed_fwht && dim > 128) continue;
        const Rotation& rotation = Rotation::of(kind, dim, 5);
        const std::vector<float> rows = normal_floats(dim * kColumns, uint64_t(dim));
        std::vector<float> x(rows.size()), y(rows.size()), expected(static_cast<size_t>(dim));
        columns->to_columns(rows.data(), dim, x.data());
        rotation.forward(*columns, x.data(), y.data());
        for (int t = 0; t < kColumns; ++t) {
          rotation.forward(rows.data() + t * dim, expected.data());
          for (int c = 0; c < dim; ++c) {
            ASSERT_EQ(x[size_t(c * kColumns + t)], rows[size_t(t * dim + c)]);
            ASSERT_EQ(y[size_t(c * kColumns + t)], expected[size_t(c)])
                << "kind " << int(kind) << ", dim " << dim << ", vector " << t << ", channel " << c;
          }
        }
      }
}

// Matrices of any number of rows and columns: sums in the order of the channels, each product rounded.
TEST(PageColumns, ProductsAreSumsInOrder) {
  for (const PageColumns* columns : all_page_columns())
    for (const int count : {1, 2, 3, 5, 8, 63, 64})
      for (const int dim : {1, 7, 64, 100}) {
        const std::vector<float> matrix = normal_floats(count * dim, 3), x = normal_floats(dim * kColumns, 4);
        std::vector<float> y(size_t(count * kColumns), -1.0f);
        columns->multiply(matrix.data(), count, dim, x.data(), y.data());
        for (int j = 0; j < count; ++j)
          for (int t = 0; t < kColumns; ++t) {
            float sum = 0;
            for (int c = 0; c < dim; ++c) {
              const volatile float product = matrix[size_t(j * dim + c)] * x[size_t(c * kColumns + t)];
              sum += product;
            }
            ASSERT_EQ(y[size_t(j * kColumns + t)], sum) << count << " x " << dim << ", row " << j << ", column " << t;
          }
      }
}

}  // namespace
}  // namespace kvasir
