// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// `kvasir bench attention` before it runs: what was asked, checked, with everything that is chosen by default.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "calibrate/codec_fits.h"
#include "cli/codec_list.h"
#include "cli/layer_input.h"

namespace kvasir::cli {

enum class Routine : uint8_t { decode, prefill, encode };

struct AttentionFlags {
  std::string routine = "decode", kv = "turbo4", baselines, simd, calibration;
  int heads = 8, kv_heads = 2, head_dim = 128, threads = 1;
  int64_t tokens = 8192;
  int batch = -1, repeat = -1;  // by routine
  CacheOptions cache;
  bool refcheck = true;
};

struct AttentionSetup {
  Routine routine = Routine::decode;
  AttentionFlags flags;
  LayerGeometry layer;
  AttentionOptions options;
  int64_t past = 0;  // tokens in the cache before the step
  int block = 1;     // tokens of a sequence that the step appends: the micro batch of prefill and encode
  int sequences = 1;
  int copies = 1;  // that take turns, so that none is in the processor's caches when its turn comes
  int repeat = 0;
  std::vector<NamedOptions> codecs;    // with their fits
  std::vector<std::string> baselines;  // ggml's types
  std::shared_ptr<const CodecFits> fits;

  int64_t tokens() const { return past + block; }
  // Values that the cache of one step holds: keys and values of all sequences.
  double values() const { return double(tokens()) * sequences * layer.kv_heads * (layer.key_dim + layer.value_dim); }
};

// Sets KVASIR_SIMD for the whole program if a level is asked for. What can't be measured is refused: Error
// invalid_argument. Default baselines that can't hold heads of this size are left out, with a note.
AttentionSetup attention_setup(const AttentionFlags& flags);

// What all methods are fed: independent Gaussian values of deviation 1; with --calibration, Gaussian values that have
// its moments, and are scored by its model's scale.
LayerInput input_of(const AttentionSetup& setup);

// "avx2" or "reference".
std::string simd_text(const AttentionOptions& options);
// One sentence if ggml was built for another instruction set than ours runs with, else nothing.
std::string simd_difference(const AttentionOptions& options);

}  // namespace kvasir::cli
