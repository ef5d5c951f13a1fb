// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/spectral_fit.h"

#include <gtest/gtest.h>

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <numeric>
#include <vector>

#include "calibrate/bit_classes.h"
#include "calibrate/calibration.h"
#include "calibrate/codec_fits.h"
#include "quant/codebook.h"
#include "quant/density.h"
#include "tests/calibrate/sample_layer.h"

namespace kvasir {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;
using test::coding_error;
using test::exact_moments;
using test::GaussianSource;

constexpr float kScale = 0.125f;

// Queries and keys that prefer unlike directions, keys off centre, values nearly flat: what models show.
struct Model {
  explicit Model(int dim)
      : queries(dim, 4, std::pow(0.02, 1.0 / dim), 11),
        keys(dim, 3, std::pow(0.005, 1.0 / dim), 12),
        values(dim, 1, std::pow(0.2, 1.0 / dim), 13) {
    keys.set_mean(4 * queries.direction(1) + keys.direction(3));
    moments = exact_moments(queries, keys, values, kScale);
    metric = queries.covariance() * double(kScale * kScale);
  }
  GaussianSource queries, keys, values;
  LayerMoments moments;
  MatrixXd metric;  // of what an error changes of a logit
};

MatrixXd matrix(const std::vector<float>& rows, int dim) {
  return Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
             rows.data(), Eigen::Index(rows.size()) / dim, dim)
      .cast<double>();
}

// Variances of keys under the metric, in descending order, by another way than the fit's: eigenvalues of
// C_K^1/2 C_Q C_K^1/2.
std::vector<double> logit_spectrum(const Model& model) {
  const MatrixXd root = Eigen::SelfAdjointEigenSolver<MatrixXd>(model.keys.covariance()).operatorSqrt();
  const VectorXd ascending = Eigen::SelfAdjointEigenSolver<MatrixXd>(root * model.metric * root).eigenvalues();
  std::vector<double> spectrum(ascending.data(), ascending.data() + ascending.size());
  std::reverse(spectrum.begin(), spectrum.end());
  return spectrum;
}

// D(b) of n channels over their own root mean square: they lie on a sphere, whose channels reach less far than normal
// ones, and a least-squares scale leaves an error that is orthogonal to the levels, one of n directions less.
double scaled_distortion(int bits, int channels) {
  const Codebook& book = lloyd_max_codebook(bits);
  const Density density = Density::sphere(channels);
  std::vector<double> levels;
  for (int code = 0; code < book.levels(); ++code) levels.push_back(double(book.value(code)));
  double error = 0;
  for (size_t i = 0; i < levels.size(); ++i) {
    const Moments cell = density.cell(levels, i);
    error += cell.m2 - 2 * levels[i] * cell.m1 + levels[i] * levels[i] * cell.m0;
  }
  return error * (1 - 1.0 / channels);
}

TEST(SpectralFit, DualsInvertTheMap) {
  for (const int dim : {64, 128})
    for (const double bits : {2.0, 3.0, 4.0})
      for (const Side side : {Side::key, Side::value}) {
        const FittedCodec fitted = fit_spectral(Model(dim).moments, side, {.bits = bits});
        ASSERT_EQ(fitted.maps->size(), 1u);
        const FittedMap& map = fitted.maps->front();
        EXPECT_EQ(map.mapped_dim, fitted.codec.mapped_dim());
        const MatrixXd product = matrix(map.rows, dim) * matrix(map.dual, dim).transpose();
        const double off = (product - MatrixXd::Identity(map.mapped_dim, map.mapped_dim)).cwiseAbs().maxCoeff();
        EXPECT_LE(off, 1e-4) << dim << " " << bits;
      }
}

TEST(SpectralFit, WholeMapsKeepLogits) {
  const int dim = 64;
  const Model model(dim);
  const FittedCodec fitted = fit_spectral(model.moments, Side::key, {.bytes = dim, .max_classes = 6});
  const FittedMap& map = fitted.maps->front();
  ASSERT_EQ(map.mapped_dim, dim);
  const std::vector<float> q = model.queries.rows(20, 1), k = model.keys.rows(20, 2);
  std::vector<float> mapped_q(dim), mapped_k(dim), back(dim);
  for (int t = 0; t < 20; ++t) {
    map.query(&q[size_t(t * dim)], mapped_q.data());
    map.forward(&k[size_t(t * dim)], mapped_k.data());
    map.inverse(mapped_k.data(), back.data());
    double plain = 0, mapped = 0, size = 0;
    for (int c = 0; c < dim; ++c) {
      const double centred = double(k[size_t(t * dim + c)]) - double(map.mean[size_t(c)]);
      plain += double(q[size_t(t * dim + c)]) * centred;
      mapped += double(mapped_q[size_t(c)]) * double(mapped_k[size_t(c)]);
      size += double(mapped_q[size_t(c)]) * double(mapped_q[size_t(c)]);
      EXPECT_NEAR(double(back[size_t(c)]), centred, 1e-4 * 4);
    }
    double key_size = 0;
    for (const float y : mapped_k) key_size += double(y) * double(y);
    EXPECT_NEAR(mapped, plain, 4 * FLT_EPSILON * std::sqrt(double(dim)) * std::sqrt(size * key_size));
  }
}

// Classes are uncorrelated, each holds its own part of the spectrum at unit energy, and squared error in the mapped
// basis is squared logit error.
TEST(SpectralFit, MapsAreKarhunenAndLoeve) {
  const int dim = 64;
  const Model model(dim);
  const std::vector<double> spectrum = logit_spectrum(model);
  const FittedCodec fitted = fit_spectral(model.moments, Side::key, {.bits = 3});
  const MatrixXd rows = matrix(fitted.maps->front().rows, dim), dual = matrix(fitted.maps->front().dual, dim);
  const MatrixXd mapped = rows * model.keys.covariance() * rows.transpose();
  const MatrixXd cost = dual * model.metric * dual.transpose();
  EXPECT_GE(fitted.codec.segments.size(), 2u);
  for (const Segment& part : fitted.codec.segments) {
    const double energy =
        std::accumulate(spectrum.begin() + part.first, spectrum.begin() + part.first + part.count, 0.0) / part.count;
    VectorXd own = Eigen::SelfAdjointEigenSolver<MatrixXd>(mapped.block(part.first, part.first, part.count, part.count))
                       .eigenvalues();
    EXPECT_NEAR(own.mean(), 1, 0.01);
    for (int j = 0; j < part.count; ++j)
      EXPECT_NEAR(own[part.count - 1 - j] * energy, spectrum[size_t(part.first + j)], 0.03 * energy);
    // The ridge of 1e-3 is what the metric has more than the queries.
    const MatrixXd part_cost = cost.block(part.first, part.first, part.count, part.count) / energy;
    EXPECT_LE((part_cost - MatrixXd::Identity(part.count, part.count)).cwiseAbs().maxCoeff(), 0.05);
    for (const Segment& other : fitted.codec.segments)
      if (other.first != part.first) {
        EXPECT_LE(mapped.block(part.first, other.first, part.count, other.count).cwiseAbs().maxCoeff(), 0.01);
      }
  }
}

TEST(SpectralFit, LosesWhatTheoryPredicts) {
  for (const int dim : {64, 128}) {
    const Model model(dim);
    const std::vector<double> spectrum = logit_spectrum(model);
    const std::vector<float> keys = model.keys.rows(64 * 64, 3);
    for (const double bits : {2.0, 3.0, 4.0}) {
      FittedCodec fitted = fit_spectral(model.moments, Side::key, {.bits = bits});
      fitted.codec.scale_fit = ScaleFit::least_squares;  // keys have unbiased ones, which add D^2 and more
      double expected = std::accumulate(spectrum.begin() + fitted.codec.mapped_dim(), spectrum.end(), 0.0);
      for (const Segment& part : fitted.codec.segments)
        expected += (part.quantizer == QuantizerKind::trellis ? class_distortion(part.bits, part.count)
                                                              : scaled_distortion(part.bits, part.count)) *
                    std::accumulate(spectrum.begin() + part.first, spectrum.begin() + part.first + part.count, 0.0);
      EXPECT_NEAR(coding_error(fitted, model.metric, keys), expected, 0.08 * expected) << dim << " " << bits;
    }
  }
}

TEST(SpectralFit, BeatsTurboOnAnisotropicKeys) {
  const Model model(64);
  const std::vector<float> keys = model.keys.rows(16 * 64, 4);
  for (const int bits : {2, 3, 4}) {
    const FittedCodec fitted = fit_spectral(model.moments, Side::key, {.bits = double(bits)});
    const Codec turbo = make_codec("turbo" + std::to_string(bits), Side::key, 64);
    EXPECT_LE(bits_per_value(fitted.codec), bits_per_value(turbo) + 1e-9);
    EXPECT_LT(coding_error(fitted, model.metric, keys), 0.6 * coding_error(turbo, {}, model.metric, keys)) << bits;
  }
}

TEST(SpectralFit, BitsAreWhatTheNameSays) {
  for (const int dim : {64, 128, 256}) {
    Calibration calibration;
    calibration.layers = {Model(dim).moments};
    calibration.tokens = 1;
    const CodecFits fits(calibration);
    for (const auto& [name, bits] : std::vector<std::pair<std::string, double>>{
             {"spectral2", 2}, {"spectral2.5", 2.5}, {"spectral3", 3}, {"spectral3.5", 3.5}, {"spectral4", 4}})
      for (const Side side : {Side::key, Side::value}) {
        const double stored = bits_per_value(fits.fit(name, side, 0).codec);
        EXPECT_LE(stored, bits + (dim == 64 ? 0.5 : 0.3)) << name << " " << dim;
        EXPECT_GT(stored, bits) << name << " " << dim;
      }
  }
}

}  // namespace
}  // namespace kvasir
