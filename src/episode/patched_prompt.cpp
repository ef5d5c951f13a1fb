// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "episode/patched_prompt.h"

#include "kvasir/error.h"

namespace kvasir {

std::string_view episode_request() {
  return "Write down what one has to remember of this part of the conversation: who and what was named, what happened "
         "or will happen and on which date, numbers and places, what each speaker likes and dislikes, what they plan "
         "or promised, and how the people they speak of are related.";
}

std::string episode_excerpts(std::span<const TranscriptSegment> segments, std::span<const size_t> representatives) {
  std::string text;
  for (const size_t index : representatives) {
    if (index >= segments.size())
      throw Error(ErrorCode::invalid_argument, "segment " + std::to_string(index) +
                                                   " doesn't exist; the conversation has " +
                                                   std::to_string(segments.size()));
    if (!text.empty()) text += "\n\n";
    text += segments[index].text;
  }
  return text;
}

std::string patched_prompt(std::span<const TranscriptSegment> segments, std::span<const size_t> representatives) {
  return "\n\n" + std::string(episode_request()) + "\n\n" + episode_excerpts(segments, representatives);
}

}  // namespace kvasir
