// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "episode/episodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "episode/kmeans.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

template <typename Value>
double cosine(std::span<const float> a, const std::vector<Value>& b) {
  double product = 0, a_square = 0, b_square = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    product += double(a[i]) * double(b[i]);
    a_square += double(a[i]) * double(a[i]);
    b_square += double(b[i]) * double(b[i]);
  }
  return a_square > 0 && b_square > 0 ? product / (std::sqrt(a_square) * std::sqrt(b_square)) : 0.0;
}

}  // namespace

Episodes::Episodes(std::vector<std::vector<float>> embeddings, const EpisodeOptions& options) {
  KmeansOptions clustering;
  clustering.clusters = options.episodes;
  clustering.starts = options.starts;
  clustering.seed = options.seed;
  clustering.threads = options.threads;
  const std::vector<int> labels = kmeans(embeddings, clustering).labels;
  *this = restore(std::move(embeddings), labels);
}

Episodes Episodes::restore(std::vector<std::vector<float>> embeddings, std::span<const int> episode_of_segment) {
  if (embeddings.size() != episode_of_segment.size())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} segments can't be told apart by the episodes of {}; give one for each",
                            embeddings.size(), episode_of_segment.size()));
  Episodes episodes;
  for (size_t i = 0; i < embeddings.size(); ++i) {
    const int episode = episode_of_segment[i];
    if (episode == int(episodes.size()))
      episodes.open(std::move(embeddings[i]));
    else
      episodes.append(episode, std::move(embeddings[i]));
  }
  return episodes;
}

const Episodes::Episode& Episodes::at(int episode) const {
  if (episode < 0 || size_t(episode) >= episodes_.size())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("there is no episode {}; this conversation has {}", episode, episodes_.size()));
  return episodes_[size_t(episode)];
}

void Episodes::check(std::span<const float> embedding) const {
  if (embedding.empty() || (!embeddings_.empty() && embedding.size() != embeddings_[0].size()))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("an embedding of {} dimensions doesn't go with those of {}; use the encoder that made them",
                            embedding.size(), embeddings_.empty() ? 0 : embeddings_[0].size()));
  if (!std::all_of(embedding.begin(), embedding.end(), [](float x) { return std::isfinite(x); }))
    throw Error(ErrorCode::invalid_argument,
                "an embedding holds NaN or an infinity and belongs to no episode; check the encoder that made it");
}

std::vector<float> Episodes::centroid(int episode) const {
  const Episode& found = at(episode);
  std::vector<float> mean;
  mean.reserve(found.sum.size());
  for (const double sum : found.sum) mean.push_back(float(sum / double(found.members.size())));
  return mean;
}

std::vector<size_t> Episodes::representatives(int episode, int count) const {
  const Episode& found = at(episode);
  std::vector<double> closeness;
  std::vector<size_t> order;
  for (const size_t member : found.members) {
    order.push_back(order.size());
    closeness.push_back(cosine(embeddings_[member], found.sum));
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return closeness[a] > closeness[b]; });
  order.resize(std::min(order.size(), size_t(std::max(count, 0))));
  std::sort(order.begin(), order.end());
  for (size_t& index : order) index = found.members[index];
  return order;
}

EpisodeMatch Episodes::match_segment(std::span<const float> query) const {
  EpisodeMatch best;
  if (episodes_.empty()) return best;
  check(query);
  for (size_t i = 0; i < embeddings_.size(); ++i) {
    const double closeness = cosine(query, embeddings_[i]);
    if (best.episode < 0 || closeness > best.cosine) best = {labels_[i], closeness};
  }
  return best;
}

EpisodeMatch Episodes::match(std::span<const float> query) const {
  EpisodeMatch best;
  if (episodes_.empty()) return best;
  check(query);
  for (size_t i = 0; i < episodes_.size(); ++i) {
    const double closeness = cosine(query, episodes_[i].sum);
    if (best.episode < 0 || closeness > best.cosine) best = {int(i), closeness};
  }
  return best;
}

size_t Episodes::append(int episode, std::vector<float> embedding) {
  at(episode);
  check(embedding);
  Episode& grown = episodes_[size_t(episode)];
  const size_t segment = embeddings_.size();
  for (size_t i = 0; i < embedding.size(); ++i) grown.sum[i] += double(embedding[i]);
  embeddings_.push_back(std::move(embedding));
  labels_.push_back(episode);
  grown.members.push_back(segment);
  return segment;
}

size_t Episodes::open(std::vector<float> embedding) {
  check(embedding);
  episodes_.push_back({{}, std::vector<double>(embedding.size())});
  return append(int(episodes_.size()) - 1, std::move(embedding));
}

void Episodes::close_last() {
  if (episodes_.empty() || episodes_.back().members != std::vector<size_t>{embeddings_.size() - 1})
    throw Error(ErrorCode::invalid_argument, "the last segment opened no episode, so none can be closed");
  episodes_.pop_back();
  embeddings_.pop_back();
  labels_.pop_back();
}

EpisodeMatch Episodes::place(std::vector<float> embedding, double threshold) {
  EpisodeMatch found = match(embedding);
  if (found.episode >= 0 && found.cosine >= threshold) {
    append(found.episode, std::move(embedding));
  } else {
    found.episode = int(episodes_.size());
    open(std::move(embedding));
  }
  return found;
}

}  // namespace kvasir
