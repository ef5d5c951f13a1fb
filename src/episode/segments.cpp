// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "episode/segments.h"

#include <algorithm>

#include "kvasir/error.h"

namespace kvasir {

std::string spoken_line(const Utterance& utterance) {
  std::string line;
  line.reserve(utterance.speaker.size() + utterance.text.size() + 9);
  line.append(utterance.speaker).append(" said, \"").append(utterance.text).append("\"");
  return line;
}

std::vector<TranscriptSegment> make_segments(std::span<const Utterance> transcript, int utterances) {
  if (utterances < 1)
    throw Error(ErrorCode::invalid_argument,
                "a segment of " + std::to_string(utterances) + " utterances holds nothing; give 1 or more");
  std::vector<TranscriptSegment> segments;
  segments.reserve(transcript.size() / size_t(utterances) + 1);
  for (size_t first = 0; first < transcript.size(); first += size_t(utterances)) {
    TranscriptSegment segment{first, std::min(size_t(utterances), transcript.size() - first), {}};
    for (const Utterance& utterance : transcript.subspan(segment.first, segment.count)) {
      if (!segment.text.empty()) segment.text += '\n';
      segment.text += spoken_line(utterance);
    }
    segments.push_back(std::move(segment));
  }
  return segments;
}

std::vector<std::string> segment_texts(std::span<const TranscriptSegment> segments) {
  std::vector<std::string> texts;
  texts.reserve(segments.size());
  for (const TranscriptSegment& segment : segments) texts.push_back(segment.text);
  return texts;
}

}  // namespace kvasir
