// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// `kvasir bench attention`: one decode step of attention over a filled cache, ours against ggml's flash_attn_ext.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>

#include "cli/bench.h"
#include "cli/codec_list.h"
#include "cli/effective_config.h"
#include "cli/filled_cache.h"
#include "cli/ggml_attention.h"
#include "cli/paired_times.h"
#include "cli/terminal.h"
#include "kvasir/error.h"

namespace kvasir::cli {
namespace {

constexpr std::array kBaselines = {"f16", "q8_0", "q4_0"};
// Between two visits of the same copy this much else is read, so that nothing of it is left in a processor cache: in a
// model the weights and the other layers see to that.
constexpr size_t kColdBytes = size_t(128) << 20;
constexpr size_t kMostBytes = size_t(2) << 30;

struct Flags {
  std::string kv = "turbo4";
  int heads = 8, kv_heads = 2, head_dim = 128, threads = 1, repeat = 10;
  int64_t tokens = 8192;
  CacheOptions cache;
  bool no_protect = false, json = false;
};

// A method of either kind.
struct Method {
  std::string name;
  size_t bytes = 0;           // that one step reads
  double bits_per_value = 0;  // windows and scales included
  std::unique_ptr<FilledCache> ours;
  std::unique_ptr<GgmlAttention> ggml;
  double max_error = 0;  // ours: largest difference from the double-precision path over the same pages
  double error = 0;      // RMS difference from exact attention over its RMS: what the codec costs
};

double rms(size_t count, const auto& value) {
  double sum = 0.0;
  for (size_t i = 0; i < count; ++i) sum += value(i) * value(i);
  return std::sqrt(sum / double(count));
}

LayerGeometry geometry_of(const Flags& flags) {
  const auto require = [](bool holds, const std::string& message) {
    if (!holds) throw Error(ErrorCode::invalid_argument, message);
  };
  require(flags.heads >= 1 && flags.kv_heads >= 1 && flags.heads % flags.kv_heads == 0,
          fmt::format("--heads must be a multiple of --kv-heads, got {} and {}", flags.heads, flags.kv_heads));
  require(flags.head_dim >= 1, fmt::format("--head-dim takes 1 or more channels, got {}", flags.head_dim));
  require(flags.tokens >= 2, fmt::format("--tokens takes 2 or more, got {}", flags.tokens));
  require(flags.repeat >= 1, fmt::format("--repeat takes 1 or more rounds, got {}", flags.repeat));
  LayerGeometry layer;
  layer.heads = flags.heads;
  layer.kv_heads = flags.kv_heads;
  layer.key_dim = layer.value_dim = flags.head_dim;
  layer.scale = 1.0f / std::sqrt(float(flags.head_dim));
  return layer;
}

class AttentionBench {
 public:
  explicit AttentionBench(const Flags& flags)
      : flags_(flags),
        options_(AttentionOptions::from_environment(flags.threads)),
        input_(gaussian_input(geometry_of(flags), flags.tokens, 1)),
        exact_(exact_attention(input_)) {
    make_methods();
    check();
  }

  void run() {
    times_.emplace(methods_.size());
    for (int round = 0; round <= flags_.repeat; ++round) {
      if (round == 1) times_.emplace(methods_.size());  // the first round warms up
      for (int copy = 0; copy < copies_; ++copy) times_->turn([&](size_t m) { return step(methods_[m], copy); });
    }
  }

  Json json() const;
  void print() const;

 private:
  void make_methods() {
    const std::vector<NamedOptions> asked = parse_codec_list(flags_.kv, flags_.cache);
    const Geometry geometry{{input_.layer}};
    const size_t values = size_t(flags_.tokens) * size_t(flags_.kv_heads) * size_t(2 * flags_.head_dim);
    size_t all = 0;
    for (const NamedOptions& codec : asked) all += plan_size(geometry, codec.options, flags_.tokens).total();
    all += values * 2 + values * 34 / 32 + values * 18 / 32;  // ggml's f16, q8_0 and q4_0
    copies_ = int(std::max<size_t>(1, kColdBytes / all + 1));
    if (all * size_t(copies_) > kMostBytes)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("{} tokens take {} MiB in all methods together; use fewer --tokens", flags_.tokens, all >> 20));
    for (const NamedOptions& codec : asked) {
      Method method{codec.name, 0, 0, std::make_unique<FilledCache>(input_, codec.options, copies_), nullptr};
      method.bytes = method.ours->bytes();
      method.bits_per_value = 8.0 * double(method.bytes) / double(values);
      methods_.push_back(std::move(method));
    }
    codecs_ = methods_.size();
    for (const std::string type : kBaselines) try {
        Method method{"ggml-" + type, 0, 0, nullptr,
                      std::make_unique<GgmlAttention>(type, input_.layer, flags_.tokens, input_.k, input_.v, copies_,
                                                      flags_.threads)};
        for (int copy = 0; copy < copies_; ++copy) method.ggml->set_query(copy, input_.q);
        method.bytes = method.ggml->bytes();
        method.bits_per_value = 8.0 * double(method.bytes) / double(values);
        methods_.push_back(std::move(method));
      } catch (const Error& error) {
        if (error.code() != ErrorCode::unsupported) throw;
        note(fmt::format("no baseline: {}", error.what()));
      }
  }

  // A method that computed something else would be no baseline.
  void check() {
    const double size = rms(exact_.size(), [&](size_t i) { return exact_[i]; });
    std::vector<float> out(exact_.size());
    for (Method& method : methods_) {
      if (method.ours) {
        const std::vector<float> reference = method.ours->reference(0, options_);
        method.ours->step(0, out, options_);
        method.ours->undo(0);
        for (size_t i = 0; i < out.size(); ++i)
          method.max_error = std::max(method.max_error, std::abs(double(out[i]) - double(reference[i])));
      } else {
        method.ggml->run(0);
        std::ranges::copy(method.ggml->output(0), out.begin());
      }
      method.error = rms(out.size(), [&](size_t i) { return double(out[i]) - exact_[i]; }) / size;
    }
    out_.resize(exact_.size());
  }

  double step(Method& method, int copy) {
    if (method.ggml) return seconds([&] { method.ggml->run(copy); });
    const double time = seconds([&] { method.ours->step(copy, out_, options_); });
    method.ours->undo(copy);
    return time;
  }

  double ns_per_token(size_t m) const {
    return times_->time(m).median * 1e9 / double(flags_.tokens) / double(flags_.kv_heads);
  }
  double gbps(size_t m) const { return double(methods_[m].bytes) / times_->time(m).median * 1e-9; }

  Flags flags_;
  AttentionOptions options_;
  LayerInput input_;
  std::vector<double> exact_;    // [heads, value_dim]
  std::vector<Method> methods_;  // codecs, then baselines
  size_t codecs_ = 0;
  int copies_ = 1;
  std::optional<PairedTimes> times_;
  std::vector<float> out_;
};

Json AttentionBench::json() const {
  const auto figures = [&](size_t m) {
    const Method& method = methods_[m];
    const Quartiles time = times_->time(m);
    Json json = {{"ns_per_token", ns_per_token(m)},
                 {"gbps", gbps(m)},
                 {"step_us", {{"median", time.median * 1e6}, {"p25", time.low * 1e6}, {"p75", time.high * 1e6}}},
                 {"bytes", method.bytes},
                 {"bits_per_value", method.bits_per_value},
                 {"codec_error", method.error}};
    if (method.ours) json["max_error"] = method.max_error;
    return json;
  };
  Json codecs, baselines;
  for (size_t m = 0; m < codecs_; ++m) {
    Json json = figures(m);
    json["effective"] = effective_json(methods_[m].ours->cache(), flags_.tokens, 1, flags_.threads);
    for (const std::string name : kBaselines) json["ratio"]["ggml-" + name] = nullptr;
    for (size_t b = codecs_; b < methods_.size(); ++b) {
      const Quartiles ratio = times_->ratio(m, b);
      json["ratio"][methods_[b].name] = ratio.median;
      json["ratio_quartiles"][methods_[b].name] = {ratio.low, ratio.high};
    }
    codecs[methods_[m].name] = std::move(json);
  }
  for (size_t b = codecs_; b < methods_.size(); ++b) baselines[methods_[b].name] = figures(b);
  Json json = codecs[methods_[0].name];  // the first codec asked for is the top level
  json["codec"] = methods_[0].name;
  json["shape"] = {{"heads", flags_.heads},   {"kv_heads", flags_.kv_heads}, {"head_dim", flags_.head_dim},
                   {"tokens", flags_.tokens}, {"sink", flags_.cache.sink},   {"recent", flags_.cache.recent}};
  json["threads"] = flags_.threads;
  json["simd"] = options_.reference ? "reference" : to_string(options_.simd);
  json["copies"] = copies_;
  json["repeat"] = flags_.repeat;
  json["codecs"] = std::move(codecs);
  json["baselines"] = std::move(baselines);
  return json;
}

void AttentionBench::print() const {
  fmt::print(
      "One token attends over {} tokens: {} heads, {} KV heads of {}, {} thread(s), {}; {} copies, {} rounds\n\n",
      flags_.tokens, flags_.heads, flags_.kv_heads, flags_.head_dim, flags_.threads,
      options_.reference ? "reference" : to_string(options_.simd), copies_, flags_.repeat);
  fmt::print("{:<12} {:>6} {:>9} {:>11} {:>7} {:>11} {:>11}", "", "bits", "us/step", "ns/tok/head", "GB/s",
             "codec error", "max error");
  for (size_t b = codecs_; b < methods_.size(); ++b) fmt::print("  {:>17}", "x " + methods_[b].name);
  fmt::print("\n");
  for (size_t m = 0; m < methods_.size(); ++m) {
    const Method& method = methods_[m];
    fmt::print("{:<12} {:>6.2f} {:>9.1f} {:>11.2f} {:>7.2f} {:>11.2e} {:>11}", method.name, method.bits_per_value,
               times_->time(m).median * 1e6, ns_per_token(m), gbps(m), method.error,
               method.ours ? fmt::format("{:.1e}", method.max_error) : "");
    for (size_t b = codecs_; b < methods_.size() && m < codecs_; ++b) {
      const Quartiles ratio = times_->ratio(m, b);
      fmt::print("  {:>17}", fmt::format("{:.2f} ({:.2f}-{:.2f})", ratio.median, ratio.low, ratio.high));
    }
    fmt::print("\n");
  }
  fmt::print("\nx: how many times faster than that baseline, median of paired steps (quartiles)\n");
}

}  // namespace

void add_bench_attention(CLI::App& bench) {
  CLI::App* command = bench.add_subcommand("attention", "one decode step of attention: ours against ggml's own");
  const auto flags = std::make_shared<Flags>();
  command->add_option("--kv", flags->kv, "codecs A,B,... (K/V for a pair)")->capture_default_str();
  command->add_option("--heads", flags->heads, "query heads")->capture_default_str();
  command->add_option("--kv-heads", flags->kv_heads, "KV heads")->capture_default_str();
  command->add_option("--head-dim", flags->head_dim, "channels of a head")->capture_default_str();
  command->add_option("--tokens", flags->tokens, "tokens in the cache, the new one included")->capture_default_str();
  command->add_option("--sink", flags->cache.sink, "first tokens kept in 16 bits")->capture_default_str();
  command->add_option("--recent", flags->cache.recent, "last tokens kept in 16 bits")->capture_default_str();
  command->add_option("-t,--threads", flags->threads, "threads")->capture_default_str();
  command->add_option("--repeat", flags->repeat, "timed rounds over all copies")->capture_default_str();
  command->add_flag("--no-protect", flags->no_protect, "leave out the codec's default protections");
  command->add_flag("--json", flags->json, "print one JSON object");
  command->callback([flags] {
    flags->cache.protect = !flags->no_protect;
    AttentionBench bench_run(*flags);
    bench_run.run();
    if (flags->json)
      print_json(bench_run.json());
    else
      bench_run.print();
  });
}

}  // namespace kvasir::cli
