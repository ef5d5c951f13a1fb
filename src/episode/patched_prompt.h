// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What stands in for the questions to come while an episode's cache is chosen (EpiCache, arXiv 2509.17396,
// section 2.2): a request for the essentials, and the episode's representative segments where the answer would stand.
// Under a chat template, the request is the user's turn and the excerpts the assistant's.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "episode/segments.h"

namespace kvasir {

std::string_view episode_request();

// The segments' texts, an empty line between them. Throws Error invalid_argument for a number that isn't a segment's.
std::string episode_excerpts(std::span<const TranscriptSegment> segments, std::span<const size_t> representatives);

// Both in one text, for models without a chat template.
std::string patched_prompt(std::span<const TranscriptSegment> segments, std::span<const size_t> representatives);

}  // namespace kvasir
