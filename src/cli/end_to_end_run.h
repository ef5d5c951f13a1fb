// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// A whole model at one length, with our cache in some codecs and with llama.cpp's own ones, taking turns in one
// process.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/codec_list.h"
#include "cli/model_flags.h"
#include "cli/paired_times.h"
#include "cli/terminal.h"

namespace kvasir::cli {

struct EndToEndOptions {
  std::vector<NamedOptions> codecs;
  std::vector<std::string> native;  // llama.cpp's cache types to compare with
  int decode = 64;                  // tokens to generate
  int round = 8;                    // that an engine generates before the next has its turn
};

// One contender: a codec of ours, or one of llama.cpp's caches.
struct EndToEndFigures {
  std::string name;
  bool native = false;
  double bits_per_value = 0, prefill_tps = 0, decode_tps = 0;
  size_t bytes = 0;
  // Of ours, by native cache: how many times faster.
  std::map<std::string, Quartiles> decode_ratio;
  std::map<std::string, double> prefill_ratio;
  Json kv, effective;  // of ours
};

struct EndToEndRun {
  std::string model, path;  // as asked for, and the file
  int64_t context = 0;
  int decode = 0, threads = 0, micro_batch = 0, sink = 0, recent = 0;
  std::vector<EndToEndFigures> figures;  // ours, then llama.cpp's
};

// flags.context tokens, of which the last options.decode are generated. Throws Error.
EndToEndRun run_end_to_end(const std::shared_ptr<Model>& model, const ModelFlags& flags,
                           const EndToEndOptions& options);

void print_run(const EndToEndRun& run);
Json run_json(const EndToEndRun& run);

// One codec of one run against the native cache that generates fastest there.
struct EndToEndLine {
  std::string model, codec, fastest;
  int64_t context = 0;
  double decode_tps = 0, fastest_tps = 0, decode_ratio = 0, prefill_ratio = 0;
};
// Nothing of runs without native caches.
std::vector<EndToEndLine> end_to_end_summary(const std::vector<EndToEndRun>& runs);
void print_summary(const std::vector<EndToEndLine>& lines);
Json summary_json(const std::vector<EndToEndLine>& lines);

}  // namespace kvasir::cli
