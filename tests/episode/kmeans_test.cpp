// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "episode/kmeans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "base/random.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

using Points = std::vector<std::vector<float>>;

Points random_points(SplitMix& random, size_t count, size_t dims) {
  Points points(count, std::vector<float>(dims));
  for (auto& point : points)
    for (float& x : point) x = float(random.normal());
  return points;
}

double inertia(const Points& points, const std::vector<int>& labels, int clusters) {
  double total = 0;
  for (int c = 0; c < clusters; ++c) {
    std::vector<double> mean(points[0].size());
    double size = 0;
    for (size_t i = 0; i < points.size(); ++i)
      if (labels[i] == c) {
        size += 1;
        for (size_t d = 0; d < mean.size(); ++d) mean[d] += double(points[i][d]);
      }
    for (size_t i = 0; i < points.size(); ++i)
      if (labels[i] == c)
        for (size_t d = 0; d < mean.size(); ++d) total += std::pow(double(points[i][d]) - mean[d] / size, 2);
  }
  return total;
}

KmeansOptions of_clusters(int clusters) {
  KmeansOptions options;
  options.clusters = clusters;
  return options;
}

// Lloyd's steps end in a minimum that need not be the lowest: ten starts find it nearly always, and a hundred on these.
TEST(Kmeans, FindsTheBestPartitionOfSixPoints) {
  SplitMix random(7);
  int missed = 0;
  for (int set = 0; set < 300; ++set) {
    const Points points = random_points(random, 6, 1 + size_t(set) % 3);
    double best = std::numeric_limits<double>::infinity();
    for (int mask = 1; mask < 32; ++mask) {  // point 5 is always in cluster 0
      std::vector<int> labels;
      for (int i = 0; i < 6; ++i) labels.push_back((mask >> i) & 1);
      best = std::min(best, inertia(points, labels, 2));
    }
    const Clusters found = kmeans(points, of_clusters(2));
    EXPECT_NEAR(found.inertia, inertia(points, found.labels, 2), 1e-5 * best);
    if (found.inertia > best * (1 + 1e-5)) ++missed;
    EXPECT_LT(found.inertia, 1.15 * best) << "set " << set;
    KmeansOptions thorough = of_clusters(2);
    thorough.starts = 100;
    EXPECT_NEAR(kmeans(points, thorough).inertia, best, 1e-5 * best) << "set " << set;
  }
  EXPECT_LE(missed, 9);
}

TEST(Kmeans, FindsPlantedBlobs) {
  SplitMix random(3);
  const size_t dims = 40;
  Points centres = random_points(random, 7, dims), points;
  std::vector<int> planted;
  for (int i = 0; i < 500; ++i) {
    planted.push_back(int(random.below(7)));
    std::vector<float> point = centres[size_t(planted.back())];
    for (float& x : point) x = 10 * x + float(random.normal());
    points.push_back(point);
  }
  const Clusters found = kmeans(points, of_clusters(7));
  ASSERT_EQ(found.centroids.size(), 7u);
  for (size_t i = 0; i < points.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_EQ(found.labels[i] == found.labels[j], planted[i] == planted[j]);
}

TEST(Kmeans, CentroidsAreMeansAndLabelsTheNearest) {
  SplitMix random(9);
  const Points points = random_points(random, 400, 33);
  const Clusters found = kmeans(points, of_clusters(5));
  int next = 0;
  std::vector<std::vector<double>> sums(5, std::vector<double>(33));
  std::vector<double> sizes(5);
  for (size_t i = 0; i < points.size(); ++i) {
    const int label = found.labels[i];
    ASSERT_LE(label, next);  // numbered as they appear
    next = std::max(next, label + 1);
    sizes[size_t(label)] += 1;
    for (size_t d = 0; d < 33; ++d) sums[size_t(label)][d] += double(points[i][d]);
  }
  EXPECT_EQ(next, 5);
  for (size_t c = 0; c < 5; ++c)
    for (size_t d = 0; d < 33; ++d) EXPECT_EQ(found.centroids[c][d], float(sums[c][d] / sizes[c]));
}

TEST(Kmeans, SameForAnyNumberOfThreads) {
  SplitMix random(11);
  const Points points = random_points(random, 700, 300);
  KmeansOptions options = of_clusters(6);
  options.starts = 2;
  const Clusters one = kmeans(points, options);
  for (const int threads : {2, 3}) {
    options.threads = threads;
    const Clusters many = kmeans(points, options);
    EXPECT_EQ(one.labels, many.labels);
    EXPECT_EQ(one.centroids, many.centroids);
    EXPECT_EQ(one.inertia, many.inertia);
  }
}

TEST(Kmeans, MorePointsThanTheSample) {
  Points points;
  SplitMix random(5);
  for (int i = 0; i < 40000; ++i)
    points.push_back({float(i % 3) * 100 + float(random.normal()), float(random.normal())});
  const Clusters found = kmeans(points, of_clusters(3));
  ASSERT_EQ(found.labels.size(), points.size());
  for (size_t i = 0; i < points.size(); ++i) EXPECT_EQ(found.labels[i], int(i % 3));
  EXPECT_NEAR(found.inertia / 40000, 2.0, 0.05);
}

TEST(Kmeans, DegenerateInputs) {
  EXPECT_TRUE(kmeans({}).centroids.empty());
  const Clusters equal = kmeans(Points(20, {0.1f, 0.2f, 0.3f}), of_clusters(4));
  EXPECT_EQ(equal.centroids, (Points{{0.1f, 0.2f, 0.3f}}));
  EXPECT_EQ(equal.labels, std::vector<int>(20, 0));
  EXPECT_EQ(equal.inertia, 0);

  const Points two = {{1, 0}, {0, 1}};
  EXPECT_EQ(kmeans(two, of_clusters(9)).labels, (std::vector<int>{0, 1}));
  EXPECT_EQ(kmeans(two, of_clusters(1)).centroids, (Points{{0.5f, 0.5f}}));
  EXPECT_EQ(kmeans(Points{{1}, {1}, {2}, {1}}, of_clusters(3)).labels, (std::vector<int>{0, 0, 1, 0}));
  EXPECT_EQ(kmeans(Points{{3e38f}, {-3e38f}, {0}}, of_clusters(2)).labels.size(), 3u);
}

TEST(Kmeans, AsManyClustersAsDistinctPointsAllow) {
  SplitMix random(21);
  for (int set = 0; set < 200; ++set) {
    Points points;
    for (int i = 0; i < 30; ++i) points.push_back({float(random.below(4)), float(random.below(2))});
    const std::set<std::vector<float>> distinct(points.begin(), points.end());
    const int k = 1 + set % 10;
    EXPECT_EQ(kmeans(points, of_clusters(k)).centroids.size(), std::min(distinct.size(), size_t(k)));
  }
}

TEST(Kmeans, Refuses) {
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  for (const Points& points :
       {Points{{1, nan}, {0, 1}}, Points{{1, 2}, {infinity, 1}}, Points{{1}, {1, 2}}, Points{{}}})
    EXPECT_THROW(kmeans(points, of_clusters(2)), Error);
  EXPECT_THROW(kmeans(Points{{1}}, of_clusters(0)), Error);
}

}  // namespace
}  // namespace kvasir
