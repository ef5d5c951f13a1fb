// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// `kvasir bench attention`: one layer's attention over a filled cache, ours against ggml's flash_attn_ext.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/bench.h"
#include "cli/bench_routines.h"
#include "kvasir/error.h"

namespace kvasir::cli {
namespace {

struct Switches {
  bool no_protect = false, shapes = false, json = false;
};

void bench_attention(AttentionFlags flags, const Switches& switches) {
  flags.cache.protect = !switches.no_protect;
  if (switches.shapes) return bench_shapes(flags, switches.json);
  const AttentionSetup setup = attention_setup(flags);
  switch (setup.routine) {
    case Routine::decode: return bench_decode(setup, switches.json);
    case Routine::prefill: return bench_prefill(setup, switches.json);
    case Routine::encode: return bench_encode(setup, switches.json);
  }
}

}  // namespace

void add_bench_attention(CLI::App& bench) {
  CLI::App* command = bench.add_subcommand("attention", "one layer's attention: ours against ggml's own");
  const auto flags = std::make_shared<AttentionFlags>();
  const auto switches = std::make_shared<Switches>();
  std::vector<CLI::Option*> of_one_shape = {
      command->add_option("--routine", flags->routine, "decode, prefill or encode")->capture_default_str(),
      command->add_option("--kv,--codec", flags->kv, "codecs A,B,... (K/V for a pair)")->capture_default_str(),
      command->add_option("--heads", flags->heads, "query heads")->capture_default_str(),
      command->add_option("--kv-heads", flags->kv_heads, "KV heads")->capture_default_str(),
      command->add_option("--head-dim", flags->head_dim, "channels of a head")->capture_default_str(),
      command->add_option("--batch", flags->batch,
                          "decode: sequences of one step, 1; prefill, encode: tokens of a micro batch, 512")};
  command
      ->add_option("--tokens", flags->tokens,
                   "decode: tokens in the cache, the new one included; prefill: before the block; encode: all")
      ->capture_default_str();
  command->add_option("--calibration", flags->calibration,
                      "what kvasir calibrate wrote, for fitted codecs; else they are fitted to Gaussian values");
  command->add_option("--sink", flags->cache.sink, "first tokens kept in 16 bits")->capture_default_str();
  command->add_option("--recent", flags->cache.recent, "last tokens kept in 16 bits")->capture_default_str();
  command->add_option("-t,--threads", flags->threads, "threads")->capture_default_str();
  command->add_option("--simd", flags->simd, "scalar, avx2, avx512 or neon; else KVASIR_SIMD, else the best there is");
  command->add_option("--baselines", flags->baselines, "ggml's caches, some of f16,q8_0,q4_0 (the default) or none");
  command->add_option("--repeat", flags->repeat, "timed rounds; decode 10, over all copies, else 3");
  command->add_flag("--refcheck,!--no-refcheck", flags->refcheck,
                    "compare with double precision first (the default); --no-refcheck for what is large");
  command->add_flag("--no-protect", switches->no_protect, "leave out the codec's default protections");
  command->add_flag("--json", switches->json, "print one JSON object");
  CLI::Option* shapes =
      command->add_flag("--shapes", switches->shapes,
                        "decode over several shapes and codecs; --calibration serves those of head dim 128");
  for (CLI::Option* option : of_one_shape) shapes->excludes(option);
  command->callback([flags, switches] { bench_attention(*flags, *switches); });
}

}  // namespace kvasir::cli
