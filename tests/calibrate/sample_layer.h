// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Layers of a made-up model: Gaussian queries, keys and values whose covariances are known and unlike each other.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <vector>

#include "calibrate/moments.h"
#include "codec/fitted_map.h"
#include "kvasir/attention.h"

namespace kvasir::test {

// x = mean + A g, g of independent N(0, 1).
class GaussianSource {
 public:
  // A = U diag(sqrt(strongest decay^j)), U a random rotation. The mean is 0.
  GaussianSource(int dim, double strongest, double decay, uint64_t seed);

  int dim() const { return int(a_.rows()); }
  Eigen::MatrixXd covariance() const { return a_ * a_.transpose(); }
  // The direction of the j-th largest variance.
  Eigen::VectorXd direction(int j) const { return a_.col(j).normalized(); }
  const Eigen::VectorXd& mean() const { return mean_; }
  void set_mean(const Eigen::VectorXd& mean) { mean_ = mean; }
  std::vector<float> rows(int count, uint64_t seed) const;  // [count, dim]

 private:
  Eigen::MatrixXd a_;
  Eigen::VectorXd mean_;
};

// Moments of one head (a group of one) as they would be after endless text: exactly these covariances. Attention pays
// to all tokens alike.
LayerMoments exact_moments(const GaussianSource& queries, const GaussianSource& keys, const GaussianSource& values,
                           float scale);

// A window of text in one layer.
struct SampleLayer {
  LayerGeometry geometry;
  int tokens = 0;
  std::vector<float> q, k, v, out;  // [tokens, heads, dim]; out is plain attention over the rest

  AttentionRows rows(int first, int count) const;
};
SampleLayer sample_layer(const LayerGeometry& geometry, int tokens, uint64_t seed);

// What WindowMoments makes of it in one piece.
LayerMoments moments_of(const SampleLayer& layer, int sink = 0, int recent = 0);

// p[token] of one query: causal softmax over scale q.k with the geometry's window, soft-cap and sink, in double.
std::vector<double> attention_of(const SampleLayer& layer, int query, int query_head);

// Mean over rows [count, dim] of e^T metric e, e what the codec's pages change of a row. count: a multiple of 64.
double coding_error(const Codec& codec, std::shared_ptr<const FittedMaps> maps, const Eigen::MatrixXd& metric,
                    const std::vector<float>& rows);
double coding_error(const FittedCodec& fitted, const Eigen::MatrixXd& metric, const std::vector<float>& rows);

}  // namespace kvasir::test
