// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "codec/fitted_map.h"

#include <gtest/gtest.h>

#include <vector>

#include "codec/token_fits.h"
#include "tests/base/normal_floats.h"
#include "transform/page_columns.h"

namespace kvasir {
namespace {

using test::normal_floats;

// A page in columns is 64 vectors one after the other, to the last bit: mapped and clipped.
TEST(FittedMap, APageIsItsVectors) {
  for (size_t level = 0; level < all_page_columns().size(); ++level)
    for (const bool with_mean : {false, true})
      for (const int mapped : {8, 56, 64}) {
        const int dim = 64;
        FittedMap map;
        map.dim = dim;
        map.mapped_dim = mapped;
        map.rows = normal_floats(mapped * dim, 1);
        if (with_mean) map.mean = normal_floats(dim, 2);
        map.clip = 0.92f;
        const std::vector<float> rows = normal_floats(dim * kColumns, 3);
        std::vector<float> x(rows.size()), y(size_t(mapped * kColumns)), one(static_cast<size_t>(mapped));
        std::vector<float> room(size_t(map.clip_rank() * kColumns));
        const PageColumns& columns = *all_page_columns()[level];
        columns.to_columns(rows.data(), dim, x.data());
        map.forward(columns, x.data(), y.data());
        all_token_fits()[level]->clip(map.clip_rank(), y.data(), mapped, room.data());
        for (int t = 0; t < kColumns; ++t) {
          map.forward(rows.data() + t * dim, one.data());
          map.clip_outliers(one.data());
          for (int j = 0; j < mapped; ++j) ASSERT_EQ(y[size_t(j * kColumns + t)], one[size_t(j)]) << "vector " << t;
        }
      }
}

}  // namespace
}  // namespace kvasir
