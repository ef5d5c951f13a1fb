// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Text to hide needles in, sentence by sentence.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir {

// Sentences in order, each with the white space that stands before it; after the last one it starts again.
class Filler {
 public:
  static Filler noise();                      // RULER's grass and sky
  static Filler document(uint64_t seed);      // the project's own book (eval/document.h)
  static Filler text(std::string_view text);  // a user's file. Throws Error invalid_argument if it has no words.

  const std::string& sentence(size_t index) const { return sentences_[index % sentences_.size()]; }
  size_t size() const { return sentences_.size(); }

 private:
  std::vector<std::string> sentences_;
};

// The file's sentences, or the document's where no text is given.
Filler prose(const std::string& text, uint64_t seed);

}  // namespace kvasir
