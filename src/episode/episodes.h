// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The episodes of a conversation (EpiCache, arXiv 2509.17396, sections 2.2 and 3.1): clusters of its segments, found
// once over the past and grown segment by segment after.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvasir {

inline constexpr int kRepresentatives = 8;

struct EpisodeOptions {
  int episodes = 4;  // E; fewer where there are fewer distinct segments
  int starts = 10;
  uint64_t seed = 42;
  int threads = 1;  // of time only
};

struct EpisodeMatch {
  int episode = -1;   // -1: there is none yet
  double cosine = 0;  // to the centroid, both normalised: a tight cluster gets no bonus
};

// Segments are numbered in the order in which they came. The state is a function of the embeddings and the episode
// of each, in order: what restore() takes gives the same bits as the run that stopped.
class Episodes {
 public:
  Episodes() = default;  // a conversation that has just begun
  // Throws Error invalid_argument for embeddings of unequal length and for NaN or infinities, as do add and open.
  Episodes(std::vector<std::vector<float>> embeddings, const EpisodeOptions& options);
  static Episodes restore(std::vector<std::vector<float>> embeddings, std::span<const int> episode_of_segment);

  size_t size() const { return episodes_.size(); }
  size_t segments() const { return embeddings_.size(); }
  const std::vector<int>& episode_of_segment() const { return labels_; }
  const std::vector<std::vector<float>>& embeddings() const { return embeddings_; }  // of the segments
  std::vector<float> centroid(int episode) const;                                    // the plain mean of the members
  const std::vector<size_t>& members(int episode) const { return at(episode).members; }
  // The members closest to the centroid by cosine, in the order of the conversation; the earlier one of equals.
  std::vector<size_t> representatives(int episode, int count = kRepresentatives) const;

  // The episode whose centroid has the largest cosine with the query; the first of equals. A zero vector has cosine 0
  // with all. Throws Error invalid_argument for a query of another length or with NaN.
  EpisodeMatch match(std::span<const float> query) const;
  // The episode of the segment that is most like the query, the first of equals; `cosine` is that segment's. Errors as
  // above.
  EpisodeMatch match_segment(std::span<const float> query) const;

  // A new segment, to an episode or to one of its own. Return the segment's number.
  size_t append(int episode, std::vector<float> embedding);
  size_t open(std::vector<float> embedding);
  // Takes back an open() that was the last change.
  void close_last();

  // Appends to the episode that matches, or opens one where the best cosine is under `threshold`. Returns the match
  // that was found, with the episode that the segment went to.
  EpisodeMatch place(std::vector<float> embedding, double threshold);

 private:
  struct Episode {
    std::vector<size_t> members;
    std::vector<double> sum;  // of the members' embeddings, in order
  };

  const Episode& at(int episode) const;
  void check(std::span<const float> embedding) const;

  std::vector<Episode> episodes_;
  std::vector<std::vector<float>> embeddings_;  // [segments, dims]
  std::vector<int> labels_;
};

}  // namespace kvasir
