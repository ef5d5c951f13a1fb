// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "tools/check_ggml/matrix_product.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvasir {
namespace {

TEST(GgmlRuns, MatrixProductsOnThisMachine) {
  const std::vector<MatrixProduct> products = run_matrix_products();
  EXPECT_GE(products.size(), 18u);  // nine formats, one and sixteen columns, in the plain layout
  for (const MatrixProduct& product : products) EXPECT_LE(product.error, product.bound) << product.name;
}

// AMX is never built in: it would appear as one more weight layout.
TEST(GgmlRuns, NeverThroughAmx) {
  for (const MatrixProduct& product : run_matrix_products())
    EXPECT_EQ(product.name.find("AMX"), std::string::npos) << product.name;
}

}  // namespace
}  // namespace kvasir
