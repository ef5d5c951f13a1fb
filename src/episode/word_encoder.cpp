// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "episode/word_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>

#include "base/random.h"
#include "episode/porter_stem.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

// Sorted. With what is left of "don't", "we've" and their like.
constexpr auto kFunctionWords = std::to_array<std::string_view>(
    {"about",  "after",   "again", "all",     "also",  "am",    "an",    "and",   "any",   "are",    "as",    "at",
     "be",     "because", "been",  "before",  "being", "but",   "by",    "can",   "could", "did",    "didn",  "do",
     "does",   "doesn",   "doing", "don",     "for",   "from",  "had",   "has",   "have",  "having", "he",    "her",
     "here",   "hers",    "him",   "his",     "how",   "if",    "in",    "into",  "is",    "isn",    "it",    "its",
     "just",   "ll",      "me",    "more",    "most",  "my",    "no",    "not",   "now",   "of",     "off",   "on",
     "once",   "only",    "or",    "other",   "our",   "out",   "over",  "own",   "re",    "said",   "same",  "she",
     "should", "so",      "some",  "such",    "than",  "that",  "the",   "their", "them",  "then",   "there", "these",
     "they",   "this",    "those", "through", "to",    "too",   "up",    "us",    "ve",    "very",   "was",   "wasn",
     "we",     "were",    "what",  "when",    "where", "which", "while", "who",   "whom",  "why",    "will",  "with",
     "would",  "you",     "your",  "yours"});
static_assert(std::is_sorted(kFunctionWords.begin(), kFunctionWords.end()));

bool is_letter(unsigned char c) {
  return c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// FNV-1a.
uint64_t hash_of(std::string_view word) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const unsigned char c : word) hash = (hash ^ c) * 0x100000001b3ull;
  return hash;
}

// In the order of the hashes, so that sums don't depend on the standard library.
std::map<uint64_t, uint32_t> counted(const std::string& text) {
  std::map<uint64_t, uint32_t> counts;
  for (const std::string& word : topic_words(text)) ++counts[hash_of(word)];
  return counts;
}

}  // namespace

std::vector<std::string> topic_words(const std::string& text) {
  std::vector<std::string> words;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && is_letter(static_cast<unsigned char>(text[end]))) ++end;
    if (end - i > 1) {
      std::string word = text.substr(i, end - i);
      for (char& c : word)
        if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
      if (!std::binary_search(kFunctionWords.begin(), kFunctionWords.end(), std::string_view(word)))
        words.push_back(porter_stem(std::move(word)));
    }
    i = std::max(end, i + 1);
  }
  return words;
}

WordEncoder::WordEncoder(int dims) : dims_(size_t(std::max(dims, 0))) {
  if (dims < 1)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("words can't be encoded in {} dimensions; give 1 or more", dims));
}

std::string WordEncoder::name() const {
  return fmt::format("words-{}", dims_);
}

void WordEncoder::learn(std::span<const std::string> segments) {
  holders_.clear();
  learned_ = segments.size();
  for (const std::string& segment : segments)
    for (const auto& [hash, count] : counted(segment)) ++holders_[hash];
}

std::vector<float> WordEncoder::encode(const std::string& text) const {
  std::vector<double> sums(dims_);
  for (const auto& [hash, count] : counted(text)) {
    double weight = 1.0 + std::log(double(count));
    if (learned_ > 0) {
      const auto found = holders_.find(hash);
      const uint32_t holders = found == holders_.end() ? 0 : found->second;
      weight *= std::log(double(learned_ + 1) / double(holders + 1));
    }
    SplitMix place(hash);
    const size_t at = size_t(place.below(dims_));
    sums[at] += (place.next() & 1) != 0 ? weight : -weight;
  }
  double square = 0;
  for (const double sum : sums) square += sum * sum;
  const double scale = square > 0 ? 1.0 / std::sqrt(square) : 0.0;
  std::vector<float> vector(dims_);
  for (size_t i = 0; i < dims_; ++i) vector[i] = float(sums[i] * scale);
  return vector;
}

std::vector<std::vector<float>> WordEncoder::encode_segments(std::span<const std::string> segments) {
  std::vector<std::vector<float>> vectors;
  vectors.reserve(segments.size());
  for (const std::string& segment : segments) vectors.push_back(encode(segment));
  return vectors;
}

std::vector<float> WordEncoder::encode_query(const std::string& query) {
  return encode(query);
}

}  // namespace kvasir
