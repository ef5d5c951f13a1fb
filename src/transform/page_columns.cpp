// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "base/processor.h"

namespace {

using Floats = float __attribute__((vector_size(16), aligned(4), may_alias));
constexpr int kRegisterRows = 2;

}  // namespace

#include "transform/page_columns_loops.h"

namespace kvasir {

const PageColumns& plain_page_columns() {
  return kLoops;
}

std::vector<const PageColumns*> all_page_columns() {
  std::vector<const PageColumns*> all = {&kLoops};
#ifdef KVASIR_X86
  if (processor_has_avx2()) all.push_back(&avx2::page_columns());
  if (processor_has_avx512()) all.push_back(&avx512::page_columns());
#endif
  return all;
}

const PageColumns& page_columns() {
  static const PageColumns& fastest = *all_page_columns().back();
  return fastest;
}

}  // namespace kvasir
