// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The primitives of search, one table per instruction set. Codes are scored in integers, so every table gives the same
// sums to the last bit and hits don't depend on the machine; tests/vector/scan_test.cpp holds the tables together.
#pragma once

#include <cstdint>
#include <string>

#include "vector/code_layout.h"

namespace kvasir {

enum class ScanLevel : uint8_t { scalar, avx2, avx512 };
std::string to_string(ScanLevel level);

inline constexpr int kBatchQueries = 8;  // queries that share one unpacking of a block's codes

// 32 vectors in the order of code_layout.h.
struct CodeBlock {
  int bits;
  int channels;          // multiple of 16, at most 65536: then no sum overflows 32 bits
  bool trellis;          // codes are those of trellis.h, bits 2 or 4
  int offset;            // the level that stands for zero
  const uint8_t* level;  // [16], or [256] for a trellis; level - offset in -127 .. 127
  const uint8_t* codes;
};

// Rotated queries as integers in -127 .. 127, interleaved like the groups of the codes.
struct QueryBatch {
  int count;             // 1 .. kBatchQueries
  const int8_t* values;  // [channels / 4][count][4]
  const int32_t* sum;    // [count], of a query's integers
};

struct ScanKernels {
  ScanLevel level;

  // dots[q * 32 + v] = sum over channels of (level of v - offset) * integer of q.
  void (*block_dots)(const CodeBlock& block, const QueryBatch& queries, int32_t* dots);

  // codes[j] = how many of the `edge_count` ascending edges are at most factor * y[j]; n is a multiple of 16.
  void (*encode)(const float* y, float factor, int n, const float* edges, int edge_count, uint8_t* codes);

  // The codes of 4 vectors, [4][4 * steps], whose levels come closest to x, [steps][16]: channel 4 s + i of vector v,
  // in steps of the levels times kTrellisScale, is x[s][4 v + i]; a multiple of 4, at most kTrellisLargest. `scratch`
  // holds trellis_scratch(steps). Ties go the same way in every table.
  void (*encode_trellis)(int bits, const uint8_t* level, const int32_t* x, int steps, int32_t* scratch, uint8_t* codes);

  // Plain float products, for exact search and re-ranking. Summation order differs between tables.
  float (*dot)(const float* a, const float* b, int n);
  float (*dot_f16)(const uint16_t* a, const float* b, int n);
  // out[i * b_rows + j] = <a_i, b_j>, rows of n floats.
  void (*dot_tile)(const float* a, int a_rows, const float* b, int b_rows, int n, float* out);
};

bool scan_available(ScanLevel level);              // compiled in and present on this processor
const ScanKernels& scan_kernels(ScanLevel level);  // throws Error invalid_argument if not available
// The best available, or what KVASIR_SIMD=scalar|avx2|avx512 asks for; chosen once per process.
const ScanKernels& scan_kernels();

const ScanKernels& scalar_scan();
#ifdef KVASIR_X86
const ScanKernels& avx2_scan();  // AVX2, FMA, F16C
// AVX-512 F, BW, VL, DQ, VNNI; trellis codes by VBMI where the processor has it; floats as avx2_scan.
const ScanKernels& avx512_scan();
#endif

}  // namespace kvasir
