// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Keys and values on their way into pages, as attend() packs them when a prompt comes in micro batches, against what
// ggml does when it writes the same rows into its caches.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <optional>

#include "base/parallel.h"
#include "cli/attention_run.h"
#include "cli/bench_routines.h"
#include "cli/effective_config.h"
#include "cli/ggml_rows.h"
#include "cli/stream_bandwidth.h"
#include "cli/text_table.h"
#include "kvasir/error.h"

namespace kvasir::cli {
namespace {

constexpr int64_t kRowsOfTask = 64;  // that ggml's threads share; as many as a page has

// What decoding gives back, against what went in: RMS difference over RMS.
struct SideErrors {
  double key = 0, value = 0;
};

struct Encoder {
  std::string name;
  size_t bytes = 0;  // that the packed tokens take
  std::unique_ptr<Cache> cache;
  std::unique_ptr<GgmlRows> rows;  // one of the two
  std::vector<std::byte> keys, values;
  std::optional<SideErrors> errors;
};

class EncodeRun {
 public:
  explicit EncodeRun(const AttentionSetup& setup)
      : setup_(setup),
        input_(input_of(setup)),
        first_(setup.flags.cache.sink),
        last_(packed_boundary(setup.tokens() - 1, first_, setup.flags.cache.recent)),
        times_(0) {
    if (last_ <= first_)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("of {} tokens none is packed, --sink {} and --recent {} keep them all in 16 bits; give "
                              "more --tokens",
                              setup.tokens(), setup.flags.cache.sink, setup.flags.cache.recent));
    for (const NamedOptions& codec : setup.codecs) {
      Encoder& encoder = encoders_.emplace_back();
      encoder.name = codec.name;
      encoder.cache = std::make_unique<Cache>(Geometry{{setup.layer}}, codec.options);
      for (const Side side : {Side::key, Side::value})
        encoder.bytes += bytes_per_page(encoder.cache->codec(0, side)) * size_t(packed() / kPageTokens) *
                         size_t(setup.layer.kv_heads);
    }
    for (const std::string& type : setup.baselines) {
      Encoder& encoder = encoders_.emplace_back();
      encoder.name = "ggml-" + type;
      encoder.rows = std::make_unique<GgmlRows>(type);
      encoder.keys.resize(encoder.rows->bytes(packed() * width(Side::key)));
      encoder.values.resize(encoder.rows->bytes(packed() * width(Side::value)));
      encoder.bytes = encoder.keys.size() + encoder.values.size();
    }
  }

  void run() {
    bandwidth_ = stream_read_bandwidth(setup_.options.threads);
    for (int round = 0; round <= setup_.repeat; ++round) {
      if (round <= 1) times_ = PairedTimes(encoders_.size());  // round 0 warms up
      times_.turn([&](size_t m) { return encode(encoders_[m], round == 0 && setup_.flags.refcheck); });
    }
  }

  Json json() const;
  void print() const;

 private:
  int64_t packed() const { return last_ - first_; }
  int64_t width(Side side) const {
    return int64_t(setup_.layer.kv_heads) * (side == Side::key ? setup_.layer.key_dim : setup_.layer.value_dim);
  }
  // Keys or values of the tokens that are packed.
  std::span<const float> rows(Side side) const {
    const std::vector<float>& all = side == Side::key ? input_.k : input_.v;
    return std::span(all).subspan(size_t(first_ * width(side)), size_t(packed() * width(side)));
  }

  double encode(Encoder& encoder, bool check) {
    const int threads = setup_.options.threads;
    if (encoder.rows) {
      const double time = seconds([&] {
        parallel_for(int((packed() + kRowsOfTask - 1) / kRowsOfTask), threads, [&](int task, int) {
          encode_rows(encoder, Side::key, task);
          encode_rows(encoder, Side::value, task);
        });
      });
      if (check) encoder.errors = SideErrors{ggml_error(encoder, Side::key), ggml_error(encoder, Side::value)};
      return time;
    }
    const SequenceId sequence = encoder.cache->create();
    const double time =
        seconds([&] { append_tokens(*encoder.cache, sequence, input_, 0, setup_.tokens(), setup_.block, threads); });
    if (check)
      encoder.errors =
          SideErrors{our_error(*encoder.cache, sequence, Side::key), our_error(*encoder.cache, sequence, Side::value)};
    encoder.cache->remove(sequence);
    return time;
  }

  void encode_rows(Encoder& encoder, Side side, int task) {
    const size_t begin = size_t(task * kRowsOfTask * width(side));
    const size_t count = std::min(rows(side).size() - begin, size_t(kRowsOfTask * width(side)));
    std::byte* to = (side == Side::key ? encoder.keys : encoder.values).data();
    encoder.rows->encode(rows(side).subspan(begin, count), to + encoder.rows->bytes(int64_t(begin)));
  }

  double ggml_error(const Encoder& encoder, Side side) const {
    const std::vector<std::byte>& bytes = side == Side::key ? encoder.keys : encoder.values;
    const std::vector<float> decoded = encoder.rows->decode(bytes.data(), int64_t(rows(side).size()));
    double difference = 0, size = 0;
    add_squares(decoded, rows(side), difference, size);
    return std::sqrt(difference / size);
  }

  double our_error(const Cache& cache, SequenceId sequence, Side side) const {
    const int heads = setup_.layer.kv_heads;
    const int64_t dim = width(side) / heads;
    double difference = 0, size = 0;
    for (int head = 0; head < heads; ++head) {
      const std::vector<float> decoded = cache.rows(sequence, 0, head, side);
      for (int64_t t = 0; t < packed(); ++t)
        add_squares(std::span(decoded).subspan(size_t((first_ + t) * dim), size_t(dim)),
                    rows(side).subspan(size_t((t * heads + head) * dim), size_t(dim)), difference, size);
    }
    return std::sqrt(difference / size);
  }

  static void add_squares(std::span<const float> a, std::span<const float> b, double& difference, double& size) {
    for (size_t i = 0; i < b.size(); ++i) {
      difference += (double(a[i]) - double(b[i])) * (double(a[i]) - double(b[i]));
      size += double(b[i]) * double(b[i]);
    }
  }

  double value_count() const { return double(packed() * (width(Side::key) + width(Side::value))); }
  double tokens_per_second(size_t m) const { return double(packed()) / times_.time(m).median; }
  double ns_per_value(size_t m) const { return times_.time(m).median * 1e9 / value_count(); }
  // Floats read and packed bytes written. Not to be measured by the memory's bandwidth: rows that were just read by
  // another method, as rows that a model has just computed, are in the processor's caches.
  double gbps(size_t m) const {
    return (4 * value_count() + double(encoders_[m].bytes)) / times_.time(m).median * 1e-9;
  }
  double bits(size_t m) const { return 8.0 * double(encoders_[m].bytes) / value_count(); }

  const AttentionSetup& setup_;
  LayerInput input_;
  int64_t first_, last_;  // positions of the packed tokens
  std::vector<Encoder> encoders_;
  PairedTimes times_;
  double bandwidth_ = 0;
};

Json EncodeRun::json() const {
  const auto figures = [&](size_t m) {
    const Quartiles time = times_.time(m);
    Json json = {{"tokens_per_second", tokens_per_second(m)},
                 {"ns_per_value", ns_per_value(m)},
                 {"gbps", gbps(m)},
                 {"us", {{"median", time.median * 1e6}, {"p25", time.low * 1e6}, {"p75", time.high * 1e6}}},
                 {"bytes", encoders_[m].bytes},
                 {"bits_per_value", bits(m)}};
    if (encoders_[m].errors) json["key_error"] = encoders_[m].errors->key;
    if (encoders_[m].errors) json["value_error"] = encoders_[m].errors->value;
    return json;
  };
  const size_t codecs = setup_.codecs.size();
  Json of_codecs, baselines = Json::object();
  for (size_t m = 0; m < codecs; ++m) {
    Json json = figures(m);
    json["effective"] = effective_json(*encoders_[m].cache, setup_.tokens(), setup_.block, setup_.options.threads);
    for (const char* name : {"ggml-f16", "ggml-q8_0", "ggml-q4_0"}) json["ratio"][name] = nullptr;
    for (size_t b = codecs; b < encoders_.size(); ++b) {
      const Quartiles ratio = times_.ratio(m, b);
      json["ratio"][encoders_[b].name] = ratio.median;
      json["ratio_quartiles"][encoders_[b].name] = {ratio.low, ratio.high};
    }
    of_codecs[encoders_[m].name] = std::move(json);
  }
  for (size_t b = codecs; b < encoders_.size(); ++b) baselines[encoders_[b].name] = figures(b);
  Json json = of_codecs[encoders_[0].name];
  json["routine"] = "encode";
  json["codec"] = encoders_[0].name;
  json["shape"] = {{"kv_heads", setup_.layer.kv_heads},
                   {"head_dim", setup_.layer.key_dim},
                   {"tokens", setup_.tokens()},
                   {"packed", packed()},
                   {"block", setup_.block},
                   {"sink", setup_.flags.cache.sink},
                   {"recent", setup_.flags.cache.recent}};
  json["threads"] = setup_.options.threads;
  json["simd"] = simd_text(setup_.options);
  json["ggml_simd"] = ggml_simd_text();
  json["same_simd"] = simd_difference(setup_.options).empty();
  json["stream_gbps"] = bandwidth_ * 1e-9;
  json["repeat"] = setup_.repeat;
  json["codecs"] = std::move(of_codecs);
  json["baselines"] = std::move(baselines);
  return json;
}

void EncodeRun::print() const {
  fmt::print(
      "Keys and values of {} tokens, {} of them packed, {} at a time: {} KV heads of {}; {} thread(s), ours {}, ggml "
      "{}; "
      "memory is read at {:.1f} GB/s; {} rounds\n\n",
      setup_.tokens(), packed(), setup_.block, setup_.layer.kv_heads, setup_.layer.key_dim, setup_.options.threads,
      simd_text(setup_.options), ggml_simd_text(), bandwidth_ * 1e-9, setup_.repeat);
  std::vector<std::string> head = {"", "bits", "ms", "tokens/s", "ns/value", "GB/s"};
  if (setup_.flags.refcheck) head.insert(head.end(), {"error of K", "error of V"});
  const size_t codecs = setup_.codecs.size();
  for (size_t b = codecs; b < encoders_.size(); ++b) head.push_back("x " + encoders_[b].name);
  std::vector<std::vector<std::string>> table = {head};
  for (size_t m = 0; m < encoders_.size(); ++m) {
    std::vector<std::string> row = {encoders_[m].name,
                                    fmt::format("{:.2f}", bits(m)),
                                    quartiles_text(times_.time(m), 1e3, 2),
                                    fmt::format("{:.0f}", tokens_per_second(m)),
                                    fmt::format("{:.3f}", ns_per_value(m)),
                                    fmt::format("{:.2f}", gbps(m))};
    if (encoders_[m].errors)
      for (const double error : {encoders_[m].errors->key, encoders_[m].errors->value})
        row.push_back(fmt::format("{:.2e}", error));
    for (size_t b = codecs; b < encoders_.size() && m < codecs; ++b)
      row.push_back(quartiles_text(times_.ratio(m, b), 1, 3));
    table.push_back(std::move(row));
  }
  fmt::print(
      "{}\ntokens and values that were packed; the time holds the 16-bit windows that they pass through\nx: how many "
      "times faster than ggml writes the packed rows into its cache, median of paired turns (quartiles)\n",
      text_table(table));
}

}  // namespace

void bench_encode(const AttentionSetup& setup, bool json) {
  EncodeRun run(setup);
  run.run();
  if (json)
    print_json(run.json());
  else
    run.print();
}

}  // namespace kvasir::cli
