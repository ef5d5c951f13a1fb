// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// An encoder without a model: the words themselves. Choices, where there were some:
// - A word is a run of ASCII letters, digits and bytes above 127 (so any script, and broken UTF-8, passes), lower-cased
//   in ASCII, reduced by Porter's rules; single letters and English function words don't count.
// - A word's weight is (1 + ln tf) · ln((N + 1) / (df + 1)), N segments learned, df of them with the word: none for
//   what every segment holds (the speakers' names), most for what none holds, so that a query about something new is
//   far from everything. BM25's length term would be lost in the normalisation; its saturation is the logarithm's.
// - Each word goes to one of `dims` places with a sign, both by its hash: no vocabulary to keep, and words that share a
//   place cancel on average. The noise of a cosine is 1/√dims; questions have few words and small cosines, and on
//   made-up dialogues (eval/dialogue.h) 1,024 places lose several in a hundred of them that 4,096 don't.
// Whether something is new shows in a segment (cosine with the closest episode: 0.25 and more where its topic is known,
// 0.10 and less where it isn't), less clearly in a bare question (0.03 to 0.23, and 0.00 to 0.06).
#pragma once

#include <cstdint>
#include <unordered_map>

#include "episode/encoder.h"

namespace kvasir {

class WordEncoder : public Encoder {
 public:
  // Throws Error invalid_argument for fewer than one place.
  explicit WordEncoder(int dims = 4096);

  std::string name() const override;
  void learn(std::span<const std::string> segments) override;
  // Without learn() every word weighs the same but for its count.
  std::vector<std::vector<float>> encode_segments(std::span<const std::string> segments) override;
  std::vector<float> encode_query(const std::string& query) override;

 private:
  std::vector<float> encode(const std::string& text) const;

  size_t dims_;
  size_t learned_ = 0;                              // segments
  std::unordered_map<uint64_t, uint32_t> holders_;  // segments with the word, by its hash
};

// What the encoder sees of a text: stems in order, function words left out.
std::vector<std::string> topic_words(const std::string& text);

}  // namespace kvasir
