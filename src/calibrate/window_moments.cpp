// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/window_moments.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel.h"

namespace kvasir {
namespace {

using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Sums = Eigen::Map<Rows>;

constexpr int kQueryRows = 32;  // that are scored at a time

// sums += x^T x, both triangles, so that sums compare and store as they are.
void add_products(std::vector<double>& sums, const Rows& x) {
  Rows product = Rows::Zero(x.cols(), x.cols());
  product.selfadjointView<Eigen::Lower>().rankUpdate(x.transpose());
  product.triangularView<Eigen::StrictlyUpper>() = product.transpose();
  Sums(sums.data(), x.cols(), x.cols()) += product;
}

Rows read_rows(const HeadsView& view, int first, int last, int head, int dim) {
  Rows rows(last - first, dim);
  for (int t = first; t < last; ++t) {
    const float* from = view.data + t * view.token_stride + head * view.head_stride;
    for (int c = 0; c < dim; ++c) rows(t - first, c) = double(from[c]);
  }
  return rows;
}

Rows widen(const std::vector<float>& values, int first, int dim) {
  const auto tokens = Eigen::Index(values.size()) / dim;
  return Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
             values.data() + size_t(first) * size_t(dim), tokens - first, dim)
      .cast<double>();
}

void add_to(std::vector<double>& sums, const std::vector<double>& more) {
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += more[i];
}

}  // namespace

WindowMoments::WindowMoments(const LayerGeometry& geometry, int window, int sink, int recent)
    : geometry_(geometry),
      kernels_(kernels_for(AttentionOptions::from_environment(1).simd)),
      sink_(sink),
      recent_(recent) {
  heads_.resize(size_t(geometry.kv_heads));
  const size_t tiles = size_t(window + kPageTokens - 1) / kPageTokens;
  for (Head& head : heads_) {
    head.key_tiles.assign(tiles * kPageTokens * size_t(geometry.key_dim), 0.0f);
    head.query.assign(size_t(geometry.key_dim) * size_t(geometry.key_dim), 0.0);
    head.attended_query = head.query;
    head.output.assign(size_t(geometry.value_dim) * size_t(geometry.value_dim), 0.0);
  }
}

void WindowMoments::add(const AttentionRows& rows, int threads) {
  parallel_for(int(heads_.size()), threads, [&](int head, int) { add_head(rows, head); });
  tokens_ += rows.tokens;
}

void WindowMoments::add_head(const AttentionRows& rows, int index) {
  Head& head = heads_[size_t(index)];
  const int dk = geometry_.key_dim, dv = geometry_.value_dim;
  for (int t = 0; t < rows.tokens; ++t) {
    const float* k = rows.k.data + t * rows.k.token_stride + index * rows.k.head_stride;
    const float* v = rows.v.data + t * rows.v.token_stride + index * rows.v.head_stride;
    head.keys.insert(head.keys.end(), k, k + dk);
    head.values.insert(head.values.end(), v, v + dv);
    const int place = tokens_ + t;
    float* tile = head.key_tiles.data() + size_t(place / kPageTokens) * kPageTokens * size_t(dk);
    for (int c = 0; c < dk; ++c) tile[c * kPageTokens + place % kPageTokens] = k[c];
  }
  head.attention.resize(size_t(tokens_ + rows.tokens), 0.0);
  head.squares.resize(size_t(tokens_ + rows.tokens), 0.0);
  const int first = std::max(0, sink_ - tokens_);
  if (first >= rows.tokens) return;
  for (int g = 0; g < geometry_.group(); ++g) {
    const int query_head = index * geometry_.group() + g;
    const Rows q = read_rows(rows.q, first, rows.tokens, query_head, dk);
    add_products(head.query, q);
    add_products(head.output, read_rows(rows.out, first, rows.tokens, query_head, dv));
    const std::vector<double> paid = attend(rows, index, query_head);
    const Eigen::Map<const Eigen::VectorXd> weights(paid.data(), Eigen::Index(paid.size()));
    add_products(head.attended_query, weights.cwiseSqrt().asDiagonal() * q);
  }
}

// Adds what each token gets of the attention of one query head.
std::vector<double> WindowMoments::attend(const AttentionRows& rows, int index, int query_head) {
  Head& head = heads_[size_t(index)];
  const int dim = geometry_.key_dim;
  const size_t width = size_t(tokens_ + rows.tokens + kPageTokens - 1) / kPageTokens * kPageTokens;
  std::vector<float> q(size_t(kQueryRows) * size_t(dim)), tile(size_t(kQueryRows) * kPageTokens),
      scores(size_t(kQueryRows) * width);
  std::vector<double> paid;
  for (int first = std::max(0, sink_ - tokens_); first < rows.tokens; first += kQueryRows) {
    const int count = std::min(kQueryRows, rows.tokens - first);
    for (int r = 0; r < count; ++r) {
      const float* from = rows.q.data + (first + r) * rows.q.token_stride + query_head * rows.q.head_stride;
      for (int c = 0; c < dim; ++c) q[size_t(r * dim + c)] = from[c] * geometry_.scale;
    }
    const int end = tokens_ + first + count;  // of what the last query sees
    for (int begin = 0; begin < end; begin += kPageTokens) {
      kernels_.tile_scores(q.data(), count, dim, head.key_tiles.data() + size_t(begin) * size_t(dim), tile.data());
      for (int r = 0; r < count; ++r)
        std::copy_n(tile.data() + r * kPageTokens, kPageTokens, scores.data() + size_t(r) * width + size_t(begin));
    }
    for (int r = 0; r < count; ++r) {
      float* row = scores.data() + size_t(r) * width;
      const int seen = tokens_ + first + r + 1;
      const int oldest = geometry_.window > 0 ? std::max(0, seen - geometry_.window) : 0;
      if (geometry_.softcap > 0)
        for (int t = oldest; t < seen; ++t) row[t] = geometry_.softcap * std::tanh(row[t] / geometry_.softcap);
      float most = -std::numeric_limits<float>::infinity(), sum = 0;
      kernels_.softmax_step(row + oldest, seen - oldest, &most, &sum);
      if (!geometry_.sink_logits.empty()) sum += std::exp(geometry_.sink_logits[size_t(query_head)] - most);
      const float inverse = 1 / sum;
      double total = 0;
      for (int t = std::max(oldest, sink_); t < seen - recent_; ++t) {
        const double p = double(row[t] * inverse);
        head.attention[size_t(t)] += p;
        head.squares[size_t(t)] += p * p;
        total += p;
      }
      paid.push_back(total);
    }
  }
  return paid;
}

void WindowMoments::finish_head(HeadMoments& moments, int index, const TurningMean* mean) const {
  const Head& head = heads_[size_t(index)];
  const Rows whole = widen(head.keys, sink_, geometry_.key_dim), v = widen(head.values, sink_, geometry_.value_dim);
  Rows k = whole;
  if (mean != nullptr) mean->remove(index, {sink_}, int(k.rows()), k.data());
  const Eigen::Map<const Eigen::VectorXd> attention(head.attention.data() + sink_, k.rows());
  const Eigen::Map<const Eigen::VectorXd> squares(head.squares.data() + sink_, k.rows());
  moments.tokens += double(k.rows());
  moments.queries += double(k.rows()) * geometry_.group();
  moments.attention += attention.sum();
  moments.squares += squares.sum();
  for (int t = 0; t < k.rows(); ++t) {
    for (int c = 0; c < geometry_.key_dim; ++c) {
      moments.key_sum[size_t(c)] += k(t, c);
      moments.attended_key_sum[size_t(c)] += attention[t] * k(t, c);
    }
    for (int c = 0; c < geometry_.value_dim; ++c) moments.value_sum[size_t(c)] += v(t, c);
  }
  add_products(moments.key, k);
  add_products(moments.attended_key, attention.cwiseSqrt().asDiagonal() * k);
  add_products(moments.value, v);
  add_products(moments.attended_value, squares.cwiseSqrt().asDiagonal() * v);
  const Eigen::Map<const Rows> metric(head.query.data(), geometry_.key_dim, geometry_.key_dim);
  const Eigen::VectorXd energy = (whole * metric).cwiseProduct(whole).rowwise().sum().cwiseMax(0);
  if (energy.sum() > 0)
    add_products(moments.proxy_value, (energy * (double(k.rows()) / energy.sum())).cwiseSqrt().asDiagonal() * v);
  add_to(moments.query, head.query);
  add_to(moments.attended_query, head.attended_query);
  add_to(moments.output, head.output);
}

std::vector<float> WindowMoments::turned_back_mean(const Rotary& rotary, const Head& head) const {
  const int dim = geometry_.key_dim;
  std::vector<double> sums(size_t(dim), 0.0);
  for (int t = sink_; t < tokens_; ++t) {
    const float* key = head.keys.data() + size_t(t) * size_t(dim);
    std::vector<double> x(key, key + dim);
    turn(rotary, -t, x.data());
    for (size_t c = 0; c < x.size(); ++c) sums[c] += x[c];
  }
  std::vector<float> mean;
  for (const double sum : sums) mean.push_back(float(sum / std::max(1, tokens_ - sink_)));
  return mean;
}

void WindowMoments::add_first_keys(LayerMoments& moments) const {
  moments.windows += 1;
  for (size_t h = 0; h < heads_.size(); ++h) {
    std::vector<double>& sum = moments.heads[h].first_key_sum;
    sum.resize(size_t(geometry_.key_dim), 0.0);
    for (size_t c = 0; c < sum.size(); ++c) sum[c] += double(heads_[h].keys[c]);
  }
}

void WindowMoments::finish(LayerMoments& moments, int threads, bool turning) {
  if (turning && moments.heads[0].key_mean.empty())
    for (size_t h = 0; h < heads_.size(); ++h) moments.heads[h].key_mean = turned_back_mean(moments.rotary, heads_[h]);
  const std::shared_ptr<const TurningMean> mean = turning ? turning_mean(moments) : nullptr;
  if (tokens_ > sink_) {
    if (turning) add_first_keys(moments);
    parallel_for(int(heads_.size()), threads,
                 [&](int head, int) { finish_head(moments.heads[size_t(head)], head, mean.get()); });
  }
  tokens_ = 0;
  for (Head& head : heads_) {
    head.keys.clear();
    head.values.clear();
    head.attention.clear();
    head.squares.clear();
    for (auto* sums : {&head.query, &head.attended_query, &head.output}) std::fill(sums->begin(), sums->end(), 0.0);
  }
}

}  // namespace kvasir
