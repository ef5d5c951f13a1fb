// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// `kvasir bench end-to-end`: a whole model, with our cache and with llama.cpp's own ones, taking turns in one process.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/bench.h"
#include "cli/codec_list.h"
#include "cli/effective_config.h"
#include "cli/model_flags.h"
#include "cli/paired_times.h"
#include "cli/terminal.h"
#include "eval/document_tokens.h"
#include "kvasir/engine.h"
#include "kvasir/error.h"

namespace kvasir::cli {
namespace {

struct Flags {
  ModelFlags model;
  std::string kv = "auto";
  std::vector<std::string> native = {"f16", "q8_0", "q4_0"};  // llama.cpp's cache types to compare with
  int decode = 64, round = 8;
  CacheOptions cache;
  bool no_protect = false, json = false;
};

// One engine of either kind, fed with the same tokens.
class Contender {
 public:
  Contender(std::string name, std::unique_ptr<Engine> engine)
      : name_(std::move(name)), ours_(std::move(engine)), sequence_(ours_->cache().create()) {}
  Contender(std::string name, std::unique_ptr<NativeEngine> engine)
      : name_(std::move(name)), native_(std::move(engine)) {}

  const std::string& name() const { return name_; }
  double feed(std::span<const int32_t> tokens) {
    return seconds([&] {
      // Asking for the last logits waits for the computation.
      if (ours_)
        ours_->decode(sequence_, tokens);
      else
        native_->decode(tokens, false, [](int, int, const float*) {});
    });
  }
  // Token by token, as generation does.
  double feed_singly(std::span<const int32_t> tokens) {
    double time = 0.0;
    for (size_t i = 0; i < tokens.size(); ++i) time += feed(tokens.subspan(i, 1));
    return time;
  }
  size_t bytes() const { return ours_ ? ours_->cache().size().total() : native_->cache_bytes(); }
  double bits_per_value() const { return ours_ ? ours_->cache().size().bits_per_value() : native_->bits_per_value(); }
  const Cache& cache() const { return ours_->cache(); }  // ours only

 private:
  std::string name_;
  std::unique_ptr<Engine> ours_;
  std::unique_ptr<NativeEngine> native_;
  SequenceId sequence_ = 0;
};

class EndToEndBench {
 public:
  explicit EndToEndBench(const Flags& flags) : flags_(flags) {
    check_model_flags(flags.model);
    const std::vector<NamedOptions> asked = parse_codec_list(flags.kv, flags.cache);
    model_ = load_model(flags.model);
    threads_ = thread_count(flags.model);
    micro_batch_ = flags.model.micro_batch;
    context_ = context_length(flags.model, *model_);
    if (flags.decode < 1 || flags.round < 1 || context_ <= flags.decode)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("-n and --round take 1 or more tokens, and -c more than -n; got -n {} --round {} -c {}",
                              flags.decode, flags.round, context_));
    tokens_ = tokenize_document(*model_, 1, context_).tokens;
    for (const NamedOptions& codec : asked) {
      contenders_.emplace_back(codec.name,
                               std::make_unique<Engine>(model_, engine_options(flags.model, *model_, codec.options)));
      note(fmt::format("{}:", codec.name));
      note_cache(contenders_.back().cache(), context_, threads_);
    }
    codecs_ = contenders_.size();
    for (const std::string& type : flags.native)
      contenders_.emplace_back(type, as_argument([&] {
                                 return std::make_unique<NativeEngine>(model_, type, type, context_, micro_batch_,
                                                                       threads_);
                               }));
    prefill_ = std::make_unique<PairedTimes>(contenders_.size());
    decode_ = std::make_unique<PairedTimes>(contenders_.size());
  }

  void run() {
    const std::span<const int32_t> all(tokens_.data(), size_t(context_));
    const size_t prompt = all.size() - size_t(flags_.decode), chunk = size_t(micro_batch_);
    ProgressBar bar("prefill and decode", int64_t(all.size()));
    for (size_t first = 0; first < prompt; first += chunk) {
      const auto part = all.subspan(first, std::min(chunk, prompt - first));
      prefill_->turn([&](size_t i) { return contenders_[i].feed(part); });
      bar.set(int64_t(first + part.size()));
    }
    for (size_t first = prompt; first < all.size(); first += size_t(flags_.round)) {
      const auto part = all.subspan(first, std::min(size_t(flags_.round), all.size() - first));
      decode_->turn([&](size_t i) { return contenders_[i].feed_singly(part); });
      bar.set(int64_t(first + part.size()));
    }
  }

  Json json() const {
    Json codecs, native;
    for (size_t i = 0; i < contenders_.size(); ++i) {
      Json figures = {{"prefill_tps", prefill_tps(i)},
                      {"decode_tps", decode_tps(i)},
                      {"bytes", contenders_[i].bytes()},
                      {"bits_per_value", contenders_[i].bits_per_value()}};
      if (i >= codecs_) {
        native[contenders_[i].name()] = std::move(figures);
        continue;
      }
      figures["kv"] = kv_json(contenders_[i].cache());
      figures["effective"] = effective_json(contenders_[i].cache(), context_, micro_batch_, threads_);
      for (size_t b = codecs_; b < contenders_.size(); ++b) {
        const std::string& name = contenders_[b].name();
        const Quartiles ratio = decode_->ratio(i, b);
        figures["decode_ratio"][name] = ratio.median;
        figures["decode_ratio_quartiles"][name] = {ratio.low, ratio.high};
        figures["prefill_ratio"][name] = prefill_ratio(i, b);
      }
      codecs[contenders_[i].name()] = std::move(figures);
    }
    const std::string top = codecs.contains("auto") ? "auto" : contenders_[0].name();
    Json json = {{"model", model_->path()},        {"context", context_},
                 {"decode_tokens", flags_.decode}, {"threads", threads_},
                 {"micro_batch", micro_batch_},    {"sink", flags_.cache.sink},
                 {"recent", flags_.cache.recent},  {"codec", top}};
    json.update(codecs[top]);
    json["codecs"] = std::move(codecs);
    json["native"] = std::move(native);
    return json;
  }

  void print() const {
    fmt::print("{}, {} tokens of prompt, {} generated, {} threads\n\n", flags_.model.model, context_ - flags_.decode,
               flags_.decode, threads_);
    fmt::print("{:<14} {:>6} {:>8} {:>13} {:>12}", "", "bits", "MiB", "prefill tok/s", "decode tok/s");
    for (const std::string& type : flags_.native) fmt::print("  {:>24}", fmt::format("x native {}", type));
    fmt::print("\n");
    for (size_t i = 0; i < contenders_.size(); ++i) {
      const Contender& contender = contenders_[i];
      fmt::print("{:<14} {:>6.2f} {:>8.1f} {:>13.1f} {:>12.1f}", (i < codecs_ ? "" : "native ") + contender.name(),
                 contender.bits_per_value(), double(contender.bytes()) / 1048576.0, prefill_tps(i), decode_tps(i));
      for (size_t b = codecs_; b < contenders_.size() && i < codecs_; ++b) {
        const Quartiles ratio = decode_->ratio(i, b);
        fmt::print("  {:>24}", fmt::format("{:.2f} ({:.2f}-{:.2f}), pre {:.2f}", ratio.median, ratio.low, ratio.high,
                                           prefill_ratio(i, b)));
      }
      fmt::print("\n");
    }
    fmt::print(
        "\nx: decode speed over that of llama.cpp's own cache, median of paired rounds (quartiles); pre: prefill\n");
  }

 private:
  double prefill_tps(size_t i) const { return double(context_ - flags_.decode) / prefill_->total(i); }
  double decode_tps(size_t i) const { return double(flags_.decode) / decode_->total(i); }
  // Chunks differ in work, so sums are compared, not chunk with chunk.
  double prefill_ratio(size_t ours, size_t native) const { return prefill_->total(native) / prefill_->total(ours); }

  Flags flags_;
  std::shared_ptr<Model> model_;
  int threads_ = 1, micro_batch_ = 1;
  int64_t context_ = 0;
  std::vector<int32_t> tokens_;
  std::vector<Contender> contenders_;  // our codecs, then llama.cpp's caches
  size_t codecs_ = 0;
  std::unique_ptr<PairedTimes> prefill_, decode_;
};

}  // namespace

void add_bench_end_to_end(CLI::App& bench) {
  CLI::App* command =
      bench.add_subcommand("end-to-end", "prefill and decode of a model against llama.cpp's own caches");
  const auto flags = std::make_shared<Flags>();
  add_model_flags(*command, flags->model);
  command->add_option("-n,--predict", flags->decode, "tokens to generate")->capture_default_str();
  command->add_option("--kv", flags->kv, "codecs A,B,... (K/V for a pair)")->capture_default_str();
  command->add_option("--native", flags->native, "llama.cpp's cache types to compare with; q4_0 takes longest")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--sink", flags->cache.sink, "first tokens kept in 16 bits")->capture_default_str();
  command->add_option("--recent", flags->cache.recent, "last tokens kept in 16 bits")->capture_default_str();
  command->add_option("--round", flags->round, "tokens that an engine generates before the next has its turn")
      ->capture_default_str();
  command->add_flag("--no-protect", flags->no_protect, "leave out the codec's default protections");
  command->add_flag("--json", flags->json, "print one JSON object");
  command->callback([flags] {
    flags->cache.protect = !flags->no_protect;
    EndToEndBench bench_run(*flags);
    bench_run.run();
    if (flags->json)
      print_json(bench_run.json());
    else
      bench_run.print();
  });
}

}  // namespace kvasir::cli
