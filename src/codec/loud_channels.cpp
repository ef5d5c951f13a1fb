// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "codec/loud_channels.h"

#include <algorithm>
#include <string>

#include "kvasir/error.h"
#include "transform/signed_fwht.h"

namespace kvasir {

void split_loud_channels(Codec& codec, int more_bits) {
  const int dim = codec.dim;
  const int loud = std::max(1, (dim / 4 + kCellChannels / 2) / kCellChannels) * kCellChannels;
  if (dim < 2 * kCellChannels || !SignedFwht::supports(loud) || !SignedFwht::supports(dim - loud))
    throw Error(ErrorCode::unsupported, "a head of " + std::to_string(dim) +
                                            " channels can't be split into a quarter and three quarters that can be "
                                            "rotated: choose turbo4 or another codec of whole bits, and leave out "
                                            "split=on");
  const Segment whole = codec.segments[0];
  codec.sort_channels = true;
  codec.segments = {{0, loud, whole.bits + more_bits, whole.quantizer},
                    {loud, dim - loud, whole.bits, whole.quantizer}};
}

}  // namespace kvasir
