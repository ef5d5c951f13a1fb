// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the fitted codecs of `bench attention` come from, and what they are fed: there is no model, only a layer's
// shape, or a calibration of one.
#pragma once

#include <memory>
#include <string>

#include "calibrate/codec_fits.h"
#include "cli/layer_input.h"

namespace kvasir::cli {

// Calibrated on what the benchmark itself feeds (gaussian_input), from another seed and on 16 tokens a channel.
std::shared_ptr<const CodecFits> gaussian_fits(const LayerGeometry& layer);

// From what kvasir calibrate wrote: the middle one of its layers that have heads of this size, its heads given out in
// turn if there are fewer than KV heads asked for. Throws Error invalid_argument if no layer has, and what
// load_calibration throws.
std::shared_ptr<const CodecFits> fits_of_file(const std::string& path, const LayerGeometry& layer);

// Gaussian values with the means and covariances that `moments` has of each KV head, for input of that shape: keys
// about their mean, queries and values about zero.
void give_moments(LayerInput& input, const LayerMoments& moments);

}  // namespace kvasir::cli
