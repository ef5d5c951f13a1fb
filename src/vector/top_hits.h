// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace kvasir {

struct Candidate {
  float score;
  uint32_t position;  // in the index
  int64_t id;

  // A total order, so that the best k are the same however the work was split.
  bool before(const Candidate& other) const { return score != other.score ? score > other.score : id < other.id; }
};

// The best k of a stream. Takes twice as many before it sorts out the worse half: one comparison for most candidates,
// whatever k is.
class TopHits {
 public:
  explicit TopHits(int k) : k_(size_t(k)) {}

  // Whoever scores less can't get in; equal may, by its id.
  float threshold() const { return threshold_; }
  void offer(const Candidate& candidate) {
    if (!(candidate.score >= threshold_)) return;
    kept_.push_back(candidate);
    if (kept_.size() >= 2 * k_ + kSlack) shrink();
  }
  void merge(const TopHits& other) {
    for (const Candidate& candidate : other.kept_) offer(candidate);
  }
  std::vector<Candidate> sorted();  // the best first, at most k

 private:
  static constexpr size_t kSlack = 32;
  void shrink();

  size_t k_;
  float threshold_ = -std::numeric_limits<float>::infinity();
  std::vector<Candidate> kept_;
};

}  // namespace kvasir
