// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// A training-free vector index: TurboQuant's first stage (arXiv 2504.19874, Alg. 1) on embeddings instead of keys.
//
// A vector x is stored as a seeded rotation's codes and one scale:
//
//   y = T (x - mean),  u = sqrt(d) y / |y|,  code_j = nearest Lloyd-Max level of u_j,  b bits a channel,
//   scale = |y|^2 / <c, y>,  c the levels of the codes
//
// so that <q, x> is estimated by <q, mean> + scale <T q, c>, without bias: the part of the error along x is zero by the
// choice of the scale, and the rest lies in a random direction (variance (1/cos^2 - 1) |q|^2 |y|^2 / d, with 1/cos^2 -
// 1 = .571, .133, .0358, .0096 for b = 1..4). Nothing is trained; a vector's code doesn't depend on its neighbours,
// except through the mean, which the first batch fixes for good. Where there is one, <mean, x - mean> is stored too, so
// that what query and mean have in common is scored exactly and only the rest of q meets the codes.
//
// Search is exhaustive over all codes, in integers, 32 vectors at a time (src/vector/scan.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kvasir {

enum class VectorMetric : uint8_t {
  inner_product,  // score = <q, x>
  cosine,         // score = <q, x> / (|q| |x|); a zero vector scores about 0
  l2,             // score = -|q - x|^2
};

// What is kept beside the codes, so that the best candidates can be scored again exactly.
enum class RerankStore : uint8_t { none, f16, original };

enum class VectorCode : uint8_t {
  scalar,   // Lloyd-Max levels, one channel at a time: TurboQuant
  trellis,  // 2 or 4 bits: a third less squared error for the same bytes, and several times longer to encode
            // (src/vector/trellis.h); 1/cos^2 - 1 = .0905 at 2 bits, .0062 at 4
};

struct VectorIndexOptions {
  int dim = 0;   // 1 .. 65536
  int bits = 4;  // 1 .. 4
  VectorCode code = VectorCode::scalar;
  VectorMetric metric = VectorMetric::inner_product;
  RerankStore rerank = RerankStore::none;
  uint64_t seed = 1;  // of the rotation; stored with the index
  // Subtract the mean of the batch that an empty index gets, if that has kMeanVectors or more and its mean holds at
  // least a twentieth of the vectors' energy.
  bool center = true;
};

struct VectorHit {
  int64_t id = 0;
  float score = 0.0f;  // larger is nearer, for every metric
  bool operator==(const VectorHit&) const = default;
};

struct VectorSearchOptions {
  int rerank = 0;   // candidates to score again with the stored vectors, at least k; 0: none
  int threads = 1;  // >= 1
};

// Bytes of an index by part.
struct VectorIndexSize {
  size_t codes = 0;   // without the padding of the last block of 32
  size_t scales = 0;  // 4 bytes a vector; 4 more for the length (cosine, l2), 4 more where a mean was subtracted
  size_t ids = 0;
  size_t stored = 0;  // f16 or original vectors
  size_t total() const { return codes + scales + ids + stored; }
};

class VectorIndexImpl;

// Reading from several threads at once is safe, changing isn't. Errors are kvasir::Error; a call that throws has
// changed nothing.
class VectorIndex {
 public:
  static constexpr int kMeanVectors = 256;
  static constexpr int64_t kMaxVectors = int64_t{1} << 31;
  static constexpr int64_t kLargestId = int64_t{1} << 62;

  // Throws Error invalid_argument for a dim or bits out of range.
  explicit VectorIndex(const VectorIndexOptions& options);
  // Maps a file that save() wrote; nothing is copied until the index is changed. `verify` reads it once to compare
  // every section's checksum; the header is always checked. Throws Error not_found, io, corrupt, unsupported (another
  // version).
  static VectorIndex open(const std::string& path, bool verify = true);
  ~VectorIndex();
  VectorIndex(VectorIndex&&) noexcept;
  VectorIndex& operator=(VectorIndex&&) noexcept;

  // To a temporary file beside `path`, synced, then renamed over it: a crash leaves the old file or the new one.
  void save(const std::string& path) const;

  // vectors [n, dim]; ids [n], 0 .. kLargestId and unique, or empty for the next free numbers. Throws Error
  // invalid_argument for NaN or infinity, a length above 1e18, or an id that is taken.
  void add(std::span<const float> vectors, std::span<const int64_t> ids = {}, int threads = 1);
  // Throws Error not_found, and removes nothing, if one of them isn't there.
  void remove(std::span<const int64_t> ids);

  // queries [n, dim] -> n lists of min(k, size()) hits, best first, ties by the smaller id. Without re-ranking the
  // result is the same to the last bit for any number of threads and any instruction set. Throws Error
  // invalid_argument.
  std::vector<std::vector<VectorHit>> search(std::span<const float> queries, int k,
                                             const VectorSearchOptions& options = {}) const;

  int64_t size() const;
  bool contains(int64_t id) const;
  std::vector<int64_t> ids() const;  // in no particular order
  // What the codes say the vector is, [dim]. Throws Error not_found.
  std::vector<float> decode(int64_t id) const;

  const VectorIndexOptions& options() const;
  int channels() const;  // dim, zero-padded to what the rotation takes
  VectorIndexSize bytes() const;

 private:
  explicit VectorIndex(std::unique_ptr<VectorIndexImpl> impl);
  std::unique_ptr<VectorIndexImpl> impl_;
};

}  // namespace kvasir
