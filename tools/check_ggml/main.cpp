// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>

#include "matrix_product.h"

int main() {
  try {
    const auto products = kvasir::run_matrix_products();
    for (const auto& product : products) {
      if (!(product.error <= product.bound)) {
        std::printf("matrix product %s: error %.3g is above %.3g\n", product.name.c_str(), product.error,
                    product.bound);
        return 1;
      }
    }
    std::printf("%zu matrix products are right\n", products.size());
    return products.empty() ? 1 : 0;
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
