// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/rotary_probe.h"

#include <algorithm>
#include <cmath>
#include <complex>

namespace kvasir {
namespace {

using Complex = std::complex<double>;

constexpr int kTokens = 8;
constexpr int64_t kSteps[] = {1, 8, 64, 512, 4096};  // each turns a pair by little more than the last one left open
constexpr int64_t kCheck = 3001;
constexpr double kChanged = 1e-4, kTolerance = 3e-3;  // of the norm
constexpr double kFarTolerance = 0.05;  // at the end of the context, where the model's own angles have few digits left

// Queries and keys of the tokens in one layer: rows of key_dim.
using LayerRows = std::vector<std::vector<float>>;

// Each token is a text of its own, so nothing but the position differs from one call to the next.
class SingleTokens {
 public:
  SingleTokens(const std::shared_ptr<Model>& model, int threads) : layers_(model->geometry().layers) {
    for (int i = 0; i < kTokens; ++i)
      tokens_.push_back(int32_t(int64_t(model->vocab_size()) * (2 * i + 1) / (2 * kTokens)));
    EngineOptions options;
    options.cache.key = options.cache.value = "f16";
    options.context = options.micro_batch = kTokens;
    options.threads = threads;
    options.observe = [this](int layer, const AttentionRows& rows) { add(layer, rows); };
    engine_ = std::make_unique<Engine>(model, options);
  }

  std::vector<LayerRows> at(int64_t position) {
    rows_.assign(layers_.size(), {});
    engine_->start_at(position);
    std::vector<EngineSpan> spans;
    for (const int32_t& token : tokens_) spans.push_back({engine_->cache().create(), {&token, 1}, false});
    engine_->decode(spans, {});
    for (const EngineSpan& span : spans) engine_->cache().remove(span.sequence);
    return std::move(rows_);
  }

 private:
  void add(int layer, const AttentionRows& rows) {
    const LayerGeometry& geometry = layers_[size_t(layer)];
    for (int t = 0; t < rows.tokens; ++t) {
      const auto take = [&](const HeadsView& view, int heads) {
        for (int h = 0; h < heads; ++h) {
          const float* row = view.data + t * view.token_stride + h * view.head_stride;
          rows_[size_t(layer)].emplace_back(row, row + geometry.key_dim);
        }
      };
      take(rows.q, geometry.heads);
      take(rows.k, geometry.kv_heads);
    }
  }

  const std::vector<LayerGeometry>& layers_;
  std::vector<int32_t> tokens_;
  std::unique_ptr<Engine> engine_;
  std::vector<LayerRows> rows_;
};

// A run of channels that turn: [first, first + count).
struct Turned {
  int first = 0, count = 0;
};

// Runs that hold all channels that change with the position. Channels of which nothing is left (a norm's weight may be
// 0) don't show, so a run may be longer than what changes: rounded out to 8 or 64 channels, or the whole head.
std::vector<Turned> turned_channels(const LayerRows& before, const LayerRows& after) {
  const auto dim = int(before[0].size());
  int first = dim, end = 0;
  for (int c = 0; c < dim; ++c) {
    double size = 0, change = 0;
    for (size_t r = 0; r < before.size(); ++r) {
      const double x = before[r][size_t(c)], y = after[r][size_t(c)];
      size += x * x + y * y;
      change += (x - y) * (x - y);
    }
    if (change <= kChanged * kChanged * size) continue;
    first = std::min(first, c);
    end = c + 1;
  }
  if (end == 0) return {};
  std::vector<Turned> runs;
  for (const int step : {1, 8, 64, dim}) {
    const int from = first / step * step, to = std::min(dim, (end + step - 1) / step * step);
    if ((to - from) % 2 == 0) runs.push_back({from, to - from});
  }
  return runs;
}

// Neighbours, or halves.
Rotary pairs_of(const Turned& turned, bool neighbours) {
  Rotary rotary;
  const int pairs = turned.count / 2;
  for (int i = 0; i < pairs; ++i)
    rotary.push_back(neighbours ? RotaryPair{turned.first + 2 * i, turned.first + 2 * i + 1, 0}
                                : RotaryPair{turned.first + i, turned.first + pairs + i, 0});
  return rotary;
}

Complex channel(const std::vector<float>& row, const RotaryPair& pair) {
  return {double(row[size_t(pair.a)]), double(row[size_t(pair.b)])};
}

// Refines each angle: by so many positions it makes so many times the difference.
void refine(Rotary& rotary, const LayerRows& before, const LayerRows& after, int64_t positions) {
  for (RotaryPair& pair : rotary) {
    Complex sum = 0;
    for (size_t r = 0; r < before.size(); ++r) sum += std::conj(channel(before[r], pair)) * channel(after[r], pair);
    const double left = std::arg(sum * std::polar(1.0, -pair.angle * double(positions)));
    pair.angle += left / double(positions);
  }
}

// How far the rows at a position are from what turning those at 0 gives, as a share of their norm.
double misfit(const Rotary& rotary, const LayerRows& before, const LayerRows& after, int64_t position) {
  double size = 0, off = 0;
  for (size_t r = 0; r < before.size(); ++r) {
    std::vector<double> turned(before[r].begin(), before[r].end());
    turn(rotary, double(position), turned.data());
    for (size_t c = 0; c < turned.size(); ++c) {
      size += double(after[r][c]) * after[r][c];
      off += (turned[c] - after[r][c]) * (turned[c] - after[r][c]);
    }
  }
  return size > 0 ? std::sqrt(off / size) : 0;
}

}  // namespace

std::optional<std::vector<Rotary>> measure_rotary(const std::shared_ptr<Model>& model, int threads) {
  SingleTokens tokens(model, threads);
  const int64_t end = std::max<int64_t>(kCheck, model->trained_context() - 1);
  const std::vector<LayerRows> start = tokens.at(0), check = tokens.at(kCheck), far = tokens.at(end);
  std::vector<std::vector<LayerRows>> steps;
  for (const int64_t step : kSteps) steps.push_back(tokens.at(step));

  std::vector<Rotary> layers;
  for (size_t layer = 0; layer < start.size(); ++layer) {
    Rotary best;
    double least = misfit(best, start[layer], check[layer], kCheck);  // of a layer that doesn't know positions
    for (const Turned& turned : turned_channels(start[layer], steps.back()[layer]))
      for (const bool neighbours : {false, true}) {
        Rotary rotary = pairs_of(turned, neighbours);
        for (size_t i = 0; i < steps.size(); ++i) refine(rotary, start[layer], steps[i][layer], kSteps[i]);
        const double off = misfit(rotary, start[layer], check[layer], kCheck);
        if (off >= least) continue;
        least = off;
        best = std::move(rotary);
      }
    if (!(least < kTolerance) || !(misfit(best, start[layer], far[layer], end) < kFarTolerance)) return std::nullopt;
    layers.push_back(std::move(best));
  }
  return layers;
}

}  // namespace kvasir
