// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// One row of `kvasir demo`: a model reads a long document through one cache, is scored on the end of it and then says
// where something is that the document mentions once, long before.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "cli/terminal.h"

namespace kvasir::cli {

struct DemoPlan {
  std::string model = "smollm2-f32";  // F32 weights: twice as fast to prefill on these CPUs as 4-bit ones, and no
                                      // rounding of activations blurs the comparison
  int64_t tokens = 6000;              // of the document, at least
  int scored = 256;                   // predictions at its end that are compared with those of f16
  int generate = 64;                  // tokens to generate
  int threads = 0;                    // 0: all
};

// The logits of the f16 run, row after row, in a file without a name: kept in memory they would hide what the caches
// take.
class LogitFile {
 public:
  LogitFile();
  ~LogitFile();
  LogitFile(const LogitFile&) = delete;
  LogitFile& operator=(const LogitFile&) = delete;
  void write(int row, const float* logits, int count);
  void read(int row, float* logits, int count) const;

 private:
  std::FILE* file_;
};

// Runs the method in this process. `reference`: writes the logits, else compares with them. The result holds "kv",
// "prefill_tps", "decode_tps", "peak_rss", "text", "prompt_tokens", "tokens", "fact" {"sentence", "answer",
// "tokens_back"}, "found"; and "kld" {"mean", "se"}, "top1" for all but the reference.
Json run_demo_method(const DemoPlan& plan, const std::string& kv, bool reference, LogitFile& logits);

}  // namespace kvasir::cli
