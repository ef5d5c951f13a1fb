// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0

namespace {

using Floats = float __attribute__((vector_size(32), aligned(4), may_alias));
constexpr int kRegisterRows = 2;

}  // namespace

#include "transform/page_columns_loops.h"

namespace kvasir::avx2 {

const PageColumns& page_columns() {
  return kLoops;
}

}  // namespace kvasir::avx2
