// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Moments as matrices. For *.cpp files of this room: everything above sees plain vectors.
#pragma once

#include <Eigen/Core>

#include "calibrate/moments.h"

namespace kvasir {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

// Means over tokens or queries, symmetric. Keys are as they are packed: without their turning mean, or about their
// plain one.
Matrix key_covariance(const LayerMoments& layer, const HeadMoments& head);
Matrix attended_key_covariance(const LayerMoments& layer, const HeadMoments& head);
Matrix query_moment(const LayerMoments& layer, const HeadMoments& head);           // of s q, s the attention scale
Matrix attended_query_moment(const LayerMoments& layer, const HeadMoments& head);  // of s q too
Matrix value_moment(const LayerMoments& layer, const HeadMoments& head);
Matrix attended_value_moment(const LayerMoments& layer, const HeadMoments& head);
Matrix proxy_value_moment(const LayerMoments& layer, const HeadMoments& head);
Matrix output_moment(const LayerMoments& layer, const HeadMoments& head);
std::vector<float> key_mean(const HeadMoments& head);

// m + ridge tr(m) / d I; the identity where m is zero, as for a head that a model has but never uses.
Matrix with_ridge(const Matrix& m, double ridge);

}  // namespace kvasir
