// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/eval/mutant_source.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/half.h"
#include "cache/cache_impl.h"
#include "codec/page_codec.h"
#include "eval/lockstep.h"

namespace kvasir::test {
namespace {

constexpr const char* kNames[] = {"no bug", "scales 2 % too large", "two heads of one layer swapped", "sinks packed"};
constexpr float kScaleError = 1.02f;

void enlarge_scales(const SideLayout& layout, std::byte* side) {
  if (layout.raw()) return;
  auto* const scales = reinterpret_cast<uint16_t*>(side + layout.scales);
  const size_t count = (layout.zeros - layout.scales) / sizeof(uint16_t);
  for (size_t i = 0; i < count; ++i) scales[i] = float_to_f16(kScaleError * f16_to_float(scales[i]));
}

// 64 rows through the codec and back.
void round_trip(const SideLayout& layout, uint16_t* rows) {
  const size_t count = size_t(kPageTokens) * size_t(layout.dim());
  std::vector<float> x(count);
  std::vector<std::byte> page(layout.bytes);
  for (size_t i = 0; i < count; ++i) x[i] = f16_to_float(rows[i]);
  encode_page(layout, 0, x.data(), page.data());
  decode_page(layout, 0, page.data(), x.data());
  for (size_t i = 0; i < count; ++i) rows[i] = float_to_f16(x[i]);
}

}  // namespace

MutantSource::MutantSource(std::shared_ptr<Model> model, EngineOptions options, Mutation mutation)
    : engine_(std::move(model), std::move(options)),
      sequence_(engine_.cache().create()),
      mutation_(mutation),
      damaged_(engine_.cache().geometry().layers.size()) {}

void MutantSource::restart() {
  engine_.cache().remove(sequence_);
  sequence_ = engine_.cache().create();
  std::ranges::fill(damaged_, 0);
  sinks_done_ = false;
}

void MutantSource::append(std::span<const int32_t> tokens, bool want_logits, std::vector<float>& logits) {
  const size_t width = size_t(engine_.model().vocab_size());
  logits.resize(want_logits ? tokens.size() * width : 0);
  const EngineSpan span{sequence_, tokens, want_logits};
  engine_.decode({&span, 1}, [&](int, int token, const float* row) {
    if (want_logits) std::copy_n(row, width, logits.begin() + std::ptrdiff_t(size_t(token) * width));
  });
  if (mutation_ == Mutation::scale_off || mutation_ == Mutation::head_swapped) damage_new_pages();
  if (mutation_ == Mutation::sink_packed) damage_sinks();
}

void MutantSource::damage_new_pages() {
  CacheImpl& cache = engine_.cache().impl();
  std::vector<LayerState>& layers = cache.sequence(sequence_).layers;
  for (size_t i = 0; i < layers.size(); ++i) {
    auto& heads = layers[i].pages;
    const size_t count = heads[0].size();
    for (size_t page = damaged_[i]; page < count; ++page) {
      if (mutation_ == Mutation::head_swapped) {
        if (i == layers.size() / 2) std::swap(heads[0][page], heads[1][page]);
        continue;
      }
      for (auto& pages : heads) {
        enlarge_scales(cache.codecs[i].key, pages[page].bytes());
        enlarge_scales(cache.codecs[i].value, pages[page].bytes() + cache.codecs[i].key.bytes);
      }
    }
    damaged_[i] = count;
  }
}

void MutantSource::damage_sinks() {
  CacheImpl& cache = engine_.cache().impl();
  if (sinks_done_ || engine_.cache().length(sequence_) < kPageTokens) return;
  sinks_done_ = true;
  std::vector<LayerState>& layers = cache.sequence(sequence_).layers;
  for (size_t i = 0; i < layers.size(); ++i)
    for (int head = 0; head < cache.geometry.layers[i].kv_heads; ++head) {
      round_trip(cache.codecs[i].key, layers[i].window.sink(Side::key, head));
      round_trip(cache.codecs[i].value, layers[i].window.sink(Side::value, head));
    }
}

double MutantSource::bits_per_value() const {
  return engine_.cache().size().bits_per_value();
}
size_t MutantSource::bytes() const {
  return engine_.cache().size().total();
}
size_t MutantSource::bytes_f16() const {
  return engine_.cache().size().bytes_f16;
}

std::map<Mutation, MeanError> mutant_divergences(const std::shared_ptr<Model>& model, const EngineOptions& options,
                                                 std::span<const int32_t> window,
                                                 const std::vector<Mutation>& mutations) {
  const SourceSpec f16 = SourceSpec::parse("f16", CacheOptions());
  const auto base = make_source(model, f16, options.context, options.micro_batch, options.threads);
  std::vector<std::unique_ptr<MutantSource>> sources;
  std::vector<LockstepRun> runs;
  for (const Mutation mutation : mutations) {
    sources.push_back(std::make_unique<MutantSource>(model, options, mutation));
    runs.emplace_back().source = sources.back().get();
  }
  score_in_lockstep(*base, runs, window, model->vocab_size(), options.micro_batch, options.threads, {});
  std::map<Mutation, MeanError> result;
  for (size_t i = 0; i < mutations.size(); ++i) {
    EXPECT_EQ(runs[i].failure, "");
    const MeanError kld = result[mutations[i]] = summarize(runs[i].positions).kld;
    fmt::print("{} with {}: KLD {:.3e} +- {:.1e}\n", options.cache.key, kNames[size_t(mutations[i])], kld.mean, kld.se);
  }
  return result;
}

}  // namespace kvasir::test
