// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir distort: a codec's error on normal or given vectors, against theory.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <thread>

#include "base/npy_file.h"
#include "cli/cache_flags.h"
#include "cli/commands.h"
#include "cli/terminal.h"
#include "eval/distortion.h"

namespace kvasir::cli {
namespace {

struct DistortFlags {
  std::string kv = "auto";
  std::string side = "both";
  std::string input = "gaussian";
  int dim = 0;
  int64_t tokens = 65536;
  int threads = 0;
  uint64_t seed = 1;
  bool no_protect = false;
  bool json = false;
};

struct Input {
  PageSource pages;
  int64_t count = 0;
  int dim = 0;
  bool gaussian = false;
};

// The source of vectors that --input names; null: it names a file.
using MakePages = PageSource (*)(int dim, uint64_t seed);
MakePages made_input(const DistortFlags& flags) {
  if (flags.input == "gaussian") return gaussian_pages;
  if (flags.input == "spike") return spike_pages;
  if (flags.input == "constant") return constant_pages;
  if (flags.input == "outliers") return outlier_pages;
  return nullptr;
}

void check_flags(const DistortFlags& flags) {
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  constexpr int64_t kMostTokens = int64_t{1} << 24;
  if (flags.side != "both" && flags.side != "key" && flags.side != "value")
    refuse(fmt::format("--side takes key, value or both, got '{}'", flags.side));
  if (flags.tokens < kPageTokens || flags.tokens > kMostTokens)
    refuse(fmt::format("--tokens takes {} to {}, got {}", kPageTokens, kMostTokens, flags.tokens));
  if (flags.threads < 0 || flags.threads > 1024)
    refuse(fmt::format("-t takes 0 to 1024 threads, got {}", flags.threads));
  if (made_input(flags) && flags.dim <= 0) refuse("--dim is needed for made vectors, as in --dim 128");
}

Input open_input(const DistortFlags& flags, const NpyMatrix& matrix) {
  if (const auto make = made_input(flags))
    return {make(flags.dim, flags.seed), flags.tokens / kPageTokens, flags.dim, flags.input == "gaussian"};
  if (flags.dim > 0 && flags.dim != matrix.dim)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--dim is {}, but `{}` holds vectors of {}", flags.dim, flags.input, matrix.dim));
  if (matrix.rows < kPageTokens)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("`{}` holds {} vectors, less than one page of {}", flags.input, matrix.rows, kPageTokens));
  return {given_pages(matrix.dim, matrix.values), std::min(matrix.rows, flags.tokens) / kPageTokens, matrix.dim, false};
}

Codec codec_of(const CacheOptions& options, Side side, int dim) {
  const std::string& name = side == Side::key ? options.key : options.value;
  return as_argument(
      [&] { return options.protect ? make_codec(name, side, dim) : make_unprotected_codec(name, side, dim); });
}

Json side_json(const Codec& codec, const Distortion& d) {
  const auto known = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
  return {{"codec", codec.name},
          {"vectors", d.vectors},
          {"mse", d.mse},
          {"mse_input", d.mse_input},
          {"theory_mse", known(d.theory_mse)},
          {"gaussian_mse", known(d.gaussian_mse)},
          {"scale_effect", d.theory_mse && d.gaussian_mse ? Json(*d.theory_mse / *d.gaussian_mse) : Json(nullptr)},
          {"ip_bias", d.ip_bias.mean},
          {"ip_bias_se", d.ip_bias.se},
          {"theory_bias", known(d.theory_bias)},
          {"ip_var", d.ip_var},
          {"theory_ip_var", known(d.theory_mse)},
          {"bits_per_value", bits_per_value(codec)},
          {"code_bits", code_bits(codec)},
          {"shannon_mse", std::pow(4.0, -code_bits(codec))},
          {"key_mean_removed", codec.center}};
}

void print_side(const char* side, const Codec& codec, const Distortion& d) {
  fmt::print("{:<5} {:<8} {:.4f} bits a value  mse {:.6f}", side, codec.name, bits_per_value(codec), d.mse);
  if (d.theory_mse) fmt::print(" (theory {:.6f}, {:+.2f} %)", *d.theory_mse, 100 * (d.mse / *d.theory_mse - 1));
  fmt::print("  score bias {:+.2e} +- {:.1e}  score variance {:.6f}  Shannon {:.6f}\n", d.ip_bias.mean, d.ip_bias.se,
             d.ip_var, std::pow(4.0, -code_bits(codec)));
}

void distort(const DistortFlags& flags) {
  check_flags(flags);
  CacheOptions options;
  options.protect = !flags.no_protect;
  as_argument([&] { parse_kv(flags.kv, options); });
  const NpyMatrix matrix = made_input(flags) ? NpyMatrix() : read_npy(flags.input);
  const Input input = open_input(flags, matrix);
  const int threads = flags.threads > 0 ? flags.threads : int(std::max(1u, std::thread::hardware_concurrency()));

  Json sides = Json::object();
  for (const Side side : {Side::key, Side::value}) {
    const char* name = side == Side::key ? "key" : "value";
    if (flags.side != "both" && flags.side != name) continue;
    const Codec codec = codec_of(options, side, input.dim);
    const Distortion result = measure_distortion(codec, input.pages, input.count, flags.seed, threads, input.gaussian);
    sides[name] = side_json(codec, result);
    if (!flags.json) print_side(name, codec, result);
  }
  if (!flags.json) return;
  // The figures of the command contract on top: the error of one side is that of the key codec unless only values were
  // asked for, since scores are what its scale is about.
  const Json& first = sides.begin().value();
  Json result = Json::object();
  for (const char* key : {"mse", "theory_mse", "gaussian_mse", "scale_effect", "ip_bias", "ip_bias_se", "ip_var",
                          "theory_ip_var", "bits_per_value", "shannon_mse"})
    result[key] = first[key];
  result["side"] = sides.begin().key();
  result["dim"] = input.dim;
  result["kv"] = flags.kv;
  result["input"] = flags.input;
  result["seed"] = flags.seed;
  result["protect"] = options.protect;
  result["sides"] = sides;
  print_json(result);
}

}  // namespace

void add_distort(CLI::App& program) {
  const auto flags = std::make_shared<DistortFlags>();
  CLI::App* command = program.add_subcommand("distort", "a codec's error on normal or given vectors, against theory");
  command->add_option("--kv", flags->kv, "codec of keys and values, K[,V]")->capture_default_str();
  command->add_option("--dim", flags->dim, "channels of a vector");
  command->add_option("--side", flags->side, "key, value or both")->capture_default_str();
  command->add_option("--tokens", flags->tokens, "vectors to measure, in pages of 64")->capture_default_str();
  command
      ->add_option(
          "--input", flags->input,
          "gaussian, spike, constant, outliers (four channels times 20), or a .npy file of vectors [rows, dim]")
      ->capture_default_str();
  command->add_option("-s,--seed", flags->seed, "seed of vectors and queries")->capture_default_str();
  command->add_option("-t,--threads", flags->threads, "threads; 0: all that this process may use")
      ->capture_default_str();
  command->add_flag("--no-protect", flags->no_protect, "leave out the codec's default protections");
  command->add_flag("--json", flags->json, "print one JSON object");
  command->callback([flags] { distort(*flags); });
}

}  // namespace kvasir::cli
