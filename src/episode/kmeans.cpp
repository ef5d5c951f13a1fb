// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "episode/kmeans.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "base/parallel.h"
#include "base/random.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

using Points = std::span<const float* const>;
using Centroids = std::vector<std::vector<float>>;

constexpr size_t kSample = 16384;
constexpr size_t kBlock = 256;  // points or dimensions that a thread takes at once

double squared_distance(const float* a, const float* b, size_t dims) {
  std::array<float, 16> lanes{};
  size_t i = 0;
  for (; i + lanes.size() <= dims; i += lanes.size())
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      const float d = a[i + lane] - b[i + lane];
      lanes[lane] += d * d;
    }
  double sum = 0;
  for (const float lane : lanes) sum += double(lane);
  for (; i < dims; ++i) sum += double(a[i] - b[i]) * double(a[i] - b[i]);
  return sum;
}

class Run {
 public:
  Run(Points points, size_t dims, const KmeansOptions& options)
      : points_(points), dims_(dims), options_(&options), labels_(points.size(), -1), distances_(points.size()) {}

  void start(uint64_t seed);
  void start(Centroids centroids) { centroids_ = std::move(centroids); }
  void iterate(double tolerance);

  double inertia() const {
    double sum = 0;
    for (const double distance : distances_) sum += distance;
    return sum;
  }
  const Centroids& centroids() const { return centroids_; }
  std::vector<int> labels() const { return labels_; }

 private:
  // Calls task(begin, end) over blocks of [0, count).
  template <typename Task>
  void in_blocks(size_t count, Task task) const {
    const int blocks = int((count + kBlock - 1) / kBlock);
    parallel_for(blocks, options_->threads,
                 [&](int block, int) { task(size_t(block) * kBlock, std::min(count, size_t(block + 1) * kBlock)); });
  }
  void distances_to(size_t point, std::span<const double> nearest, std::vector<double>& shrunk) const {
    in_blocks(points_.size(), [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i)
        shrunk[i] = std::min(nearest[i], squared_distance(points_[i], points_[point], dims_));
    });
  }
  bool assign();
  void fill_empty();
  double move_centroids();

  Points points_;
  size_t dims_;
  const KmeansOptions* options_;
  Centroids centroids_;
  std::vector<int> labels_;
  std::vector<double> distances_;  // squared, to the own centroid
};

void Run::start(uint64_t seed) {
  SplitMix random(seed);
  const size_t n = points_.size(), wanted = std::min(n, size_t(options_->clusters));
  const int candidates = 2 + int(std::log(double(options_->clusters)));
  std::vector<double> nearest(n, std::numeric_limits<double>::infinity()), shrunk(n), best(n);
  size_t next = size_t(random.below(n));
  distances_to(next, nearest, best);
  for (;;) {
    nearest.swap(best);
    centroids_.emplace_back(points_[next], points_[next] + dims_);
    double total = 0;
    for (const double distance : nearest) total += distance;
    if (centroids_.size() == wanted || !(total > 0)) return;  // 0: all points are taken as they are
    double least = std::numeric_limits<double>::infinity();
    for (int candidate = 0; candidate < candidates; ++candidate) {
      double left = random.uniform() * total;
      size_t drawn = n;
      for (size_t i = 0; i < n; ++i) {
        if (!(nearest[i] > 0)) continue;
        drawn = i;
        if ((left -= nearest[i]) < 0) break;
      }
      distances_to(drawn, nearest, shrunk);
      double sum = 0;
      for (const double distance : shrunk) sum += distance;
      if (sum < least) {
        least = sum;
        next = drawn;
        best = shrunk;
      }
    }
  }
}

// True if a label changed. Of equal distances the lower cluster wins.
bool Run::assign() {
  const std::vector<int> before = labels_;
  in_blocks(points_.size(), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      distances_[i] = std::numeric_limits<double>::infinity();
      labels_[i] = 0;  // also of points so far out that every distance overflows
      for (size_t c = 0; c < centroids_.size(); ++c) {
        const double distance = squared_distance(points_[i], centroids_[c].data(), dims_);
        if (distance < distances_[i]) {
          distances_[i] = distance;
          labels_[i] = int(c);
        }
      }
    }
  });
  fill_empty();
  return labels_ != before;
}

void Run::fill_empty() {
  std::vector<size_t> sizes(centroids_.size());
  for (const int label : labels_) ++sizes[size_t(label)];
  for (size_t c = 0; c < sizes.size(); ++c) {
    if (sizes[c] > 0) continue;
    size_t farthest = points_.size();
    for (size_t i = 0; i < points_.size(); ++i)
      if (distances_[i] > 0 && sizes[size_t(labels_[i])] > 1 &&
          (farthest == points_.size() || distances_[i] > distances_[farthest]))
        farthest = i;
    if (farthest == points_.size()) continue;
    --sizes[size_t(labels_[farthest])];
    labels_[farthest] = int(c);
    distances_[farthest] = 0;
    sizes[c] = 1;
  }
}

// The squared length of all moves. Threads share the dimensions, not the points, so each sum has one order.
double Run::move_centroids() {
  const size_t k = centroids_.size();
  std::vector<size_t> sizes(k);
  for (const int label : labels_) ++sizes[size_t(label)];
  std::vector<double> moves((dims_ + kBlock - 1) / kBlock);
  in_blocks(dims_, [&](size_t begin, size_t end) {
    const size_t width = end - begin;
    std::vector<double> sums(k * width);
    for (size_t i = 0; i < points_.size(); ++i) {
      double* sum = sums.data() + size_t(labels_[i]) * width;
      for (size_t d = 0; d < width; ++d) sum[d] += double(points_[i][begin + d]);
    }
    for (size_t c = 0; c < k; ++c) {
      if (sizes[c] == 0) continue;
      for (size_t d = 0; d < width; ++d) {
        float& at = centroids_[c][begin + d];
        const float mean = float(sums[c * width + d] / double(sizes[c]));
        moves[begin / kBlock] += (double(mean) - double(at)) * (double(mean) - double(at));
        at = mean;
      }
    }
  });
  double sum = 0;
  for (const double move : moves) sum += move;
  return sum;
}

void Run::iterate(double tolerance) {
  for (int i = 0; i < options_->max_iterations; ++i)
    if (!assign() || move_centroids() <= tolerance) break;
  assign();
  move_centroids();  // a centroid is the mean of its members, wherever it stopped
  in_blocks(points_.size(), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      distances_[i] = squared_distance(points_[i], centroids_[size_t(labels_[i])].data(), dims_);
  });
}

double mean_variance(Points points, size_t dims) {
  std::vector<double> mean(dims), square(dims);
  for (const float* point : points)
    for (size_t d = 0; d < dims; ++d) {
      mean[d] += double(point[d]);
      square[d] += double(point[d]) * double(point[d]);
    }
  double sum = 0;
  const double n = double(points.size());
  for (size_t d = 0; d < dims; ++d) sum += std::max(0.0, square[d] / n - (mean[d] / n) * (mean[d] / n));
  return sum / double(dims);
}

std::vector<const float*> checked(std::span<const std::vector<float>> points, const KmeansOptions& options) {
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  if (options.clusters < 1 || options.starts < 1)
    refuse(fmt::format("k-means with {} clusters and {} starts does nothing; give 1 or more of each", options.clusters,
                       options.starts));
  std::vector<const float*> rows;
  rows.reserve(points.size());
  for (const std::vector<float>& point : points) {
    if (point.empty() || point.size() != points[0].size())
      refuse(fmt::format("point {} has {} dimensions and the first has {}; clustered points need the same, 1 or more",
                         rows.size(), point.size(), points[0].size()));
    if (!std::all_of(point.begin(), point.end(), [](float x) { return std::isfinite(x); }))
      refuse(fmt::format("point {} holds NaN or an infinity and can't be clustered; check the encoder that made it",
                         rows.size()));
    rows.push_back(point.data());
  }
  return rows;
}

// Numbers the clusters as they appear and leaves out those without members.
Clusters in_order(const Run& run) {
  Clusters result;
  result.labels = run.labels();
  std::vector<int> number(run.centroids().size(), -1);
  for (int& label : result.labels) {
    if (number[size_t(label)] < 0) {
      number[size_t(label)] = int(result.centroids.size());
      result.centroids.push_back(run.centroids()[size_t(label)]);
    }
    label = number[size_t(label)];
  }
  result.inertia = run.inertia();
  return result;
}

}  // namespace

Clusters kmeans(std::span<const std::vector<float>> points, const KmeansOptions& options) {
  const std::vector<const float*> all = checked(points, options);
  if (all.empty()) return {};
  SplitMix seeds(options.seed);
  const size_t dims = points[0].size(), stride = (all.size() + kSample - 1) / kSample;
  std::vector<const float*> sample;  // one of each stride, drawn, since conversations have rhythms
  for (size_t i = 0; i < all.size(); i += stride)
    sample.push_back(all[i + size_t(seeds.below(std::min(stride, all.size() - i)))]);

  const double tolerance = options.tolerance * mean_variance(sample, dims);
  Run best(sample, dims, options);
  for (int start = 0; start < options.starts; ++start) {
    Run run(sample, dims, options);
    run.start(seeds.next());
    run.iterate(tolerance);
    if (start == 0 || run.inertia() < best.inertia()) best = std::move(run);
  }
  if (stride == 1) return in_order(best);
  Run whole(all, dims, options);
  whole.start(best.centroids());
  whole.iterate(tolerance);
  return in_order(whole);
}

}  // namespace kvasir
