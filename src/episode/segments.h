// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "episode/transcript.h"

namespace kvasir {

inline constexpr int kSegmentUtterances = 4;  // w of EpiCache, chosen there from {2, 4, 8}

// A run of neighbouring utterances, the unit that is embedded and clustered.
struct TranscriptSegment {
  size_t first = 0, count = 0;  // utterances
  std::string text;             // a line for each: NAME said, "TEXT"

  bool operator==(const TranscriptSegment&) const = default;
};

// Runs of `utterances`, none overlapping, in order; the last may be shorter. Texts pass through byte for byte.
// Throws Error invalid_argument for a length below 1.
std::vector<TranscriptSegment> make_segments(std::span<const Utterance> transcript,
                                             int utterances = kSegmentUtterances);

// One line of a segment, without its end.
std::string spoken_line(const Utterance& utterance);

std::vector<std::string> segment_texts(std::span<const TranscriptSegment> segments);

}  // namespace kvasir
