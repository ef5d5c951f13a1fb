// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "vector/code_table.h"

#include <cmath>
#include <cstdlib>

#include "kvasir/error.h"
#include "quant/codebook.h"
#include "vector/trellis.h"

namespace kvasir {

bool complete(CodeTable& table) {
  if (table.bits < 1 || table.bits > 4 || !(table.step > 0) || !std::isfinite(table.step)) return false;
  if (table.trellis() && table.bits != 2 && table.bits != 4) return false;
  for (size_t i = 0; i < size_t(table.entries()); ++i) {
    const int signed_level = int(table.level[i]) - table.offset;
    if (std::abs(signed_level) > 127) return false;
    if (!table.trellis() && i > 0 && table.level[i] <= table.level[i - 1]) return false;
    table.value[i] = float(signed_level) * table.step;
  }
  if (table.trellis()) return table.offset == 128;  // the search assumes it
  for (size_t code = 0; code + 1 < size_t(table.entries()); ++code)
    table.edges[code] = 0.5f * (table.value[code] + table.value[code + 1]);
  return true;
}

CodeTable make_code_table(VectorCode kind, int bits) {
  CodeTable table;
  table.bits = bits;
  table.kind = kind;
  if (kind == VectorCode::trellis) {
    const TrellisLevels& levels = bits == 2 ? kTrellis2 : kTrellis4;
    table.offset = 128;
    table.step = levels.step;
    for (size_t i = 0; i < 256; ++i) table.level[i] = uint8_t(128 + levels.level[i]);
  } else {
    const Codebook& book = lloyd_max_codebook(bits);
    table.offset = book.offset;
    table.step = book.step;
    for (int code = 0; code < book.levels(); ++code) table.level[size_t(code)] = book.level[size_t(code)];
  }
  if (!complete(table)) throw Error(ErrorCode::internal, "a codebook doesn't fit the scan's signed bytes");
  return table;
}

}  // namespace kvasir
