// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/attention_setup.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "cli/bench_fits.h"
#include "cli/cache_flags.h"
#include "cli/ggml_rows.h"
#include "cli/terminal.h"
#include "host/fitted_codecs.h"
#include "kvasir/error.h"

namespace kvasir::cli {
namespace {

constexpr const char* kBaselines = "f16,q8_0,q4_0";
// Between two visits of the same copy this much else is read, so that nothing of it is left in a processor cache: in a
// model the weights and the other layers see to that.
constexpr double kColdBytes = double(128 << 20);
constexpr int kMostCopies = 1024;  // of few tokens it would take millions
constexpr int kMicroBatch = 512;
constexpr int kMostThreads = 512;                  // ggml's own limit
constexpr int64_t kMostTokens = int64_t(1) << 40;  // far beyond any memory, and products of it still fit

void require(bool holds, const std::string& message) {
  if (!holds) throw Error(ErrorCode::invalid_argument, message);
}

Routine routine_of(const std::string& name) {
  if (name == "decode") return Routine::decode;
  if (name == "prefill") return Routine::prefill;
  if (name == "encode") return Routine::encode;
  throw Error(ErrorCode::invalid_argument, fmt::format("--routine takes decode, prefill or encode, got '{}'", name));
}

LayerGeometry geometry_of(const AttentionFlags& flags) {
  require(flags.heads >= 1 && flags.kv_heads >= 1 && flags.heads % flags.kv_heads == 0,
          fmt::format("--heads must be a multiple of --kv-heads, got {} and {}", flags.heads, flags.kv_heads));
  require(flags.head_dim >= 1 && flags.head_dim <= kMaxHeadDim,
          fmt::format("--head-dim takes 1 to {} channels, got {}", kMaxHeadDim, flags.head_dim));
  LayerGeometry layer;
  layer.heads = flags.heads;
  layer.kv_heads = flags.kv_heads;
  layer.key_dim = layer.value_dim = flags.head_dim;
  layer.scale = 1.0f / std::sqrt(float(flags.head_dim));
  return layer;
}

AttentionOptions options_of(const AttentionFlags& flags) {
  if (!flags.simd.empty()) {
    require(std::ranges::any_of(kSimdLevels, [&](SimdLevel level) { return to_string(level) == flags.simd; }),
            fmt::format("--simd takes scalar, avx2, avx512 or neon, got '{}'", flags.simd));
    setenv("KVASIR_SIMD", flags.simd.c_str(), 1);
  }
  require(flags.threads <= kMostThreads, fmt::format("-t takes up to {} threads, got {}", kMostThreads, flags.threads));
  return AttentionOptions::from_environment(flags.threads);
}

std::vector<std::string> baselines_of(const AttentionFlags& flags) {
  std::vector<std::string> list;
  if (flags.baselines == "none") return list;
  const std::vector<std::string> known = {"f16", "q8_0", "q4_0"};
  std::istringstream names((flags.baselines.empty() ? kBaselines : flags.baselines) + std::string(","));
  for (std::string name; std::getline(names, name, ',');) {
    require(std::ranges::find(known, name) != known.end(),
            fmt::format("--baselines takes some of {} or none, got '{}'", kBaselines, name));
    require(std::ranges::find(list, name) == list.end(), fmt::format("--baselines names '{}' twice", name));
    try {
      GgmlRows(name).require_whole_blocks(flags.head_dim);
      list.push_back(name);
    } catch (const Error& error) {
      require(flags.baselines.empty(), fmt::format("{}; leave it out of --baselines", error.what()));
      note(fmt::format("no baseline: {}", error.what()));
    }
  }
  return list;
}

void choose_codecs(AttentionSetup& setup) {
  const AttentionFlags& flags = setup.flags;
  require(
      flags.cache.sink >= 0 && flags.cache.recent >= 0,
      fmt::format("--sink and --recent take 0 or more tokens, got {} and {}", flags.cache.sink, flags.cache.recent));
  setup.codecs = parse_codec_list(flags.kv, flags.cache);
  const auto fitted = [](const NamedOptions& codec) { return names_fitted_codec(codec.options); };
  if (std::ranges::any_of(setup.codecs, fitted)) {
    setup.fits = flags.calibration.empty() ? gaussian_fits(setup.layer) : fits_of_file(flags.calibration, setup.layer);
    setup.layer.scale = setup.fits->calibration()->layers[0].scale;
    for (NamedOptions& codec : setup.codecs)
      if (fitted(codec)) codec.options.fitted = setup.fits;
  } else {
    require(flags.calibration.empty(),
            "--calibration serves codecs that are fitted to a model, and --kv names none: choose spectral3 or another "
            "of them, or leave it out");
  }
}

double bits_of(const std::string& baseline) {
  return 8.0 * double(GgmlRows(baseline).bytes(32)) / 32;
}

// Half of the machine's memory. Asked twice: before the codecs are made, which can only guess at no bytes for them, and
// with them.
void require_memory(const AttentionSetup& setup, double cache_bytes) {
  const double rows = double(setup.block) * setup.sequences * setup.layer.heads;
  double needed = 4.0 * setup.values() / setup.sequences + 4.0 * rows * (setup.layer.key_dim + setup.layer.value_dim);
  needed += cache_bytes * setup.copies;
  if (setup.routine == Routine::prefill) needed += 2.0 * double(setup.tokens()) * setup.block;  // ggml's mask
  const double most = 0.5 * double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE));
  require(needed <= most, fmt::format("{} tokens take {:.0f} MiB in all methods together, and this machine has {:.0f} "
                                      "to spare; use fewer --tokens, a smaller --batch or fewer --kv and --baselines",
                                      setup.tokens(), needed * 0x1p-20, most * 0x1p-20));
}

void choose_sizes(AttentionSetup& setup) {
  const AttentionFlags& flags = setup.flags;
  const bool decode = setup.routine == Routine::decode;
  require(flags.tokens >= 2 && flags.tokens <= kMostTokens,
          fmt::format("--tokens takes 2 or more, up to 2^40, got {}", flags.tokens));
  require(flags.batch >= 1 || flags.batch == -1,
          decode ? fmt::format("--batch takes 1 or more sequences, got {}", flags.batch)
                 : fmt::format("--batch takes 1 or more tokens of a micro batch, got {}", flags.batch));
  require(flags.repeat >= 1 || flags.repeat == -1,
          fmt::format("--repeat takes 1 or more rounds, got {}", flags.repeat));
  setup.block = decode ? 1 : flags.batch > 0 ? flags.batch : kMicroBatch;
  setup.sequences = decode && flags.batch > 0 ? flags.batch : 1;
  setup.past = setup.routine == Routine::prefill ? flags.tokens : flags.tokens - setup.block;
  if (setup.routine == Routine::encode) {
    setup.block = int(std::min<int64_t>(setup.block, flags.tokens));
    setup.past = flags.tokens - setup.block;
  }
  setup.repeat = flags.repeat > 0 ? flags.repeat : decode ? 10 : 3;
}

}  // namespace

AttentionSetup attention_setup(const AttentionFlags& flags) {
  AttentionSetup setup;
  setup.flags = flags;
  setup.routine = routine_of(flags.routine);
  setup.layer = geometry_of(flags);
  setup.options = options_of(flags);
  choose_sizes(setup);
  setup.baselines = baselines_of(flags);
  double bytes = 0;
  for (const std::string& baseline : setup.baselines) bytes += setup.values() * bits_of(baseline) / 8;
  require_memory(setup, bytes);
  choose_codecs(setup);
  for (const NamedOptions& codec : setup.codecs)
    bytes += as_argument([&] { return double(plan_size({{setup.layer}}, codec.options, setup.tokens()).total()); }) *
             setup.sequences;
  // What prefill reads it reads for hundreds of queries, and what encode reads was just written in a model too.
  if (setup.routine == Routine::decode) setup.copies = int(std::min(kColdBytes / bytes + 1, double(kMostCopies)));
  require_memory(setup, bytes);
  return setup;
}

LayerInput input_of(const AttentionSetup& setup) {
  LayerInput input = gaussian_input(setup.layer, setup.past, setup.block, setup.sequences, 1);
  if (!setup.flags.calibration.empty()) give_moments(input, setup.fits->calibration()->layers[0]);
  return input;
}

std::string simd_text(const AttentionOptions& options) {
  return options.reference ? "reference" : to_string(options.simd);
}

std::string simd_difference(const AttentionOptions& options) {
  if (options.reference || options.simd == ggml_simd()) return {};
  return fmt::format("ours runs with {}, ggml was built for {}: the ratios compare two instruction sets",
                     to_string(options.simd), ggml_simd_text());
}

}  // namespace kvasir::cli
