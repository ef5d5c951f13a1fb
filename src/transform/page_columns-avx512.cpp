// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0

namespace {

using Floats = float __attribute__((vector_size(64), aligned(4), may_alias));
constexpr int kRegisterRows = 4;

}  // namespace

#include "transform/page_columns_loops.h"

namespace kvasir::avx512 {

const PageColumns& page_columns() {
  return kLoops;
}

}  // namespace kvasir::avx512
