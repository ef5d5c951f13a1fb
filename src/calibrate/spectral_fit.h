// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The spectral codecs: a Karhunen-Loeve transform under the metric in which errors hurt, then bits by variance.
//
// Keys: an error e changes a logit by q.e, so e^T C_Q e is what counts. With S = C_Q^1/2 and S C_K S = U L U^T the map
// T = U^T S makes squared error the expected squared logit error, and channels uncorrelated with variances L: the
// optimal linear transform code for logits. (OSCAR takes eigenvectors of C_Q alone.) Keys come without their turning
// mean (codec/turning_mean.h), or are centred here; either costs nothing. Values: eigenvectors of their second moment,
// weighed by attention.
#pragma once

#include <string_view>

#include "calibrate/moments.h"
#include "codec/fitted_map.h"

namespace kvasir {

struct SpectralOptions {
  double bits = 3;  // a value, scales not counted
  int bytes = 0;    // of a token; 0: by `bits` and what page sizes allow for scales
  int max_classes = 4;
  // Shares of the attended moments in what is fitted; the rest comes from all tokens alike, so that no direction is
  // forgotten. Values: all attended.
  double attended_query = 0.5, attended_key = 0.5, attended_value = 1;
};

// Bytes of a token and head that `bits` a value stand for, with scales: bits + 1/2 at 64 channels and below, bits + .3
// above.
int spectral_bytes(double bits, int dim);

// Segments are shared by the layer's heads, maps are their own. `codec` comes with a name.
FittedCodec fit_spectral(const LayerMoments& moments, Side side, const SpectralOptions& options);

}  // namespace kvasir
