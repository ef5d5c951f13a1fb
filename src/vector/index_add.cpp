// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_set>

#include "base/half.h"
#include "base/parallel.h"
#include "kvasir/error.h"
#include "vector/index_impl.h"

namespace kvasir {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, what);
}

// New vectors with what the columns need to know of them.
struct Batch {
  const float* vectors;  // [count, dim]
  int64_t count;
  int dim;
  std::vector<double> lengths;  // [count]

  const float* row(int64_t i) const { return vectors + i * dim; }
};

constexpr int kRowsOfATask = 256;

Batch measured(std::span<const float> vectors, int dim, int threads) {
  if (vectors.size() % size_t(dim) != 0)
    refuse("the index holds vectors of " + std::to_string(dim) + " numbers; " + std::to_string(vectors.size()) +
           " numbers aren't a whole count of them");
  Batch batch{vectors.data(), int64_t(vectors.size() / size_t(dim)), dim, {}};
  batch.lengths.resize(size_t(batch.count));
  const int tasks = int((batch.count + kRowsOfATask - 1) / kRowsOfATask);
  parallel_for(tasks, threads, [&](int task, int) {
    const int64_t end = std::min(batch.count, int64_t(task + 1) * kRowsOfATask);
    for (int64_t i = int64_t(task) * kRowsOfATask; i < end; ++i)
      batch.lengths[size_t(i)] = std::sqrt(squared_length(batch.row(i), dim));
  });
  for (int64_t i = 0; i < batch.count; ++i) {
    const double length = batch.lengths[size_t(i)];
    if (!std::isfinite(length)) refuse("vector " + std::to_string(i) + " of the batch holds NaN or infinity");
    if (length > double(kLargestLength)) refuse("vector " + std::to_string(i) + " of the batch is longer than 1e18");
  }
  return batch;
}

void check_ids(const VectorIndexImpl& index, std::span<const int64_t> ids, int64_t count) {
  if (int64_t(ids.size()) != count)
    refuse(std::to_string(count) + " vectors came with " + std::to_string(ids.size()) + " ids");
  const std::span<const int64_t> taken = index.ids.get();
  std::unordered_set<int64_t> seen(taken.begin(), taken.end());
  for (const int64_t id : ids) {
    if (id < 0 || id > VectorIndex::kLargestId) refuse("ids are 0 to 2^62, got " + std::to_string(id));
    if (!seen.insert(id).second) refuse("id " + std::to_string(id) + " is taken; remove it first");
  }
}

// What every row is multiplied by before the mean is taken off.
float factor_of(const VectorIndexImpl& index, double length) {
  if (index.options.metric != VectorMetric::cosine) return 1.0f;
  return length < double(kSmallestLength) ? 0.0f : float(1.0 / length);
}

// Of evenly spaced rows: 16,384 place the mean well below the codes' own error. Empty if there is nothing in it.
std::vector<float> mean_of(const VectorIndexImpl& index, const Batch& batch) {
  constexpr int64_t kMostRows = 16384;
  constexpr double kLeastShare = 0.05;
  if (!index.options.center || batch.count < VectorIndex::kMeanVectors) return {};
  const int64_t stride = (batch.count + kMostRows - 1) / kMostRows;
  std::vector<double> sum(size_t(batch.dim), 0.0);
  int64_t rows = 0;
  double energy = 0;
  for (int64_t i = 0; i < batch.count; i += stride, ++rows) {
    const float factor = factor_of(index, batch.lengths[size_t(i)]);
    energy += std::pow(batch.lengths[size_t(i)] * double(factor), 2);
    for (int j = 0; j < batch.dim; ++j) sum[size_t(j)] += double(batch.row(i)[j] * factor);
  }
  std::vector<float> mean;
  for (const double channel : sum) mean.push_back(float(channel / double(rows)));
  const bool matters = squared_length(mean.data(), batch.dim) >= kLeastShare * energy / double(rows);
  return matters ? mean : std::vector<float>();
}

// <mean, x - mean>
float along_mean(const std::vector<float>& mean, const float* x, float factor) {
  double sum = 0;
  for (size_t j = 0; j < mean.size(); ++j) sum += double(mean[j]) * double(x[j] * factor - mean[j]);
  return float(sum);
}

void store_f16(const VectorIndexImpl& index, const float* x, double length, uint16_t* out) {
  const float factor = factor_of(index, length);
  for (int j = 0; j < index.options.dim; ++j) out[j] = float_to_f16(x[j] * factor);
}

void check_f16(const VectorIndexImpl& index, std::span<const float> vectors) {
  if (index.options.rerank != RerankStore::f16 || index.options.metric == VectorMetric::cosine) return;
  for (const float value : vectors)
    if (std::abs(value) > kHalfMax)
      refuse("a 16-bit float can't hold " + std::to_string(value) + ": use --rerank original or --metric cosine");
}

// The columns of an index that has room for `count` vectors.
struct Columns {
  std::span<uint8_t> codes;
  std::span<float> scales, lengths, along;
  std::span<int64_t> ids;
  std::span<uint8_t> stored;
};

Columns grown(VectorIndexImpl& index, int64_t count, bool has_mean) {
  const size_t slots = size_t(blocks_of(count)) * kBlockVectors;
  const size_t code_bytes = slots / kBlockVectors * index.code_bytes(), stored = size_t(count) * index.stored_bytes();
  const size_t lengths = index.has_lengths() ? slots : 0, along = has_mean ? slots : 0;
  // Everything that may be short of memory comes before the first change.
  index.codes.reserve(code_bytes);
  index.scales.reserve(slots);
  index.lengths.reserve(lengths);
  index.along.reserve(along);
  index.ids.reserve(size_t(count));
  index.stored.reserve(stored);
  return {index.codes.resize(code_bytes), index.scales.resize(slots),      index.lengths.resize(lengths),
          index.along.resize(along),      index.ids.resize(size_t(count)), index.stored.resize(stored)};
}

// What is kept of row i beside its code.
void keep(const VectorIndexImpl& index, const Batch& batch, int64_t i, const VectorEncoder::Encoded& encoded,
          size_t position, const Columns& to) {
  const double length = batch.lengths[size_t(i)];
  to.scales[position] = encoded.scale;
  if (index.options.metric == VectorMetric::cosine) to.lengths[position] = float(length);
  if (index.options.metric == VectorMetric::l2) to.lengths[position] = encoded.length;
  if (!to.along.empty()) to.along[position] = along_mean(index.mean, batch.row(i), factor_of(index, length));
  uint8_t* out = to.stored.data() + position * index.stored_bytes();
  if (index.options.rerank == RerankStore::original)
    std::copy_n(batch.row(i), batch.dim, reinterpret_cast<float*>(out));
  if (index.options.rerank == RerankStore::f16)
    store_f16(index, batch.row(i), length, reinterpret_cast<uint16_t*>(out));
}

// The vectors of one block from position `from` to `to`; row 0 of the batch goes to `first`.
void encode_block(const VectorIndexImpl& index, const Batch& batch, int64_t first, int64_t from, int64_t to,
                  VectorEncoder::Workspace& workspace, const Columns& columns) {
  const VectorEncoder& encoder = index.encoder;
  const int channels = encoder.channels();
  uint8_t* block = columns.codes.data() + size_t(from / kBlockVectors) * index.code_bytes();
  for (; from < to; from += VectorEncoder::kRows) {
    const int rows = int(std::min<int64_t>(VectorEncoder::kRows, to - from));
    for (int row = 0; row < rows; ++row) {
      const int64_t i = from + row - first;
      encoder.rotate(batch.row(i), factor_of(index, batch.lengths[size_t(i)]), index.mean,
                     &workspace.y[size_t(row) * size_t(channels)]);
    }
    VectorEncoder::Encoded encoded[VectorEncoder::kRows];
    encoder.encode(scan_kernels(), workspace, rows, encoded);
    for (int row = 0; row < rows; ++row) {
      const int64_t position = from + row;
      write_codes(encoder.table().bits, channels, int(position % kBlockVectors),
                  &workspace.codes[size_t(row) * size_t(channels)], block);
      keep(index, batch, position - first, encoded[row], size_t(position), columns);
    }
  }
}

}  // namespace

void VectorIndex::add(std::span<const float> vectors, std::span<const int64_t> ids, int threads) {
  VectorIndexImpl& index = *impl_;
  if (threads < 1) refuse("-t takes 1 or more threads, got " + std::to_string(threads));
  const Batch batch = measured(vectors, index.options.dim, threads);
  if (!ids.empty() || batch.count == 0) check_ids(index, ids, batch.count);
  if (batch.count == 0) return;
  const int64_t first = index.count, count = first + batch.count;
  if (count > kMaxVectors) refuse("an index takes at most 2^31 vectors");
  check_f16(index, vectors);
  std::vector<float> mean = first == 0 && index.mean.empty() ? mean_of(index, batch) : index.mean;
  std::vector<VectorEncoder::Workspace> workspaces(size_t(threads), index.encoder.workspace());

  const Columns columns = grown(index, count, !mean.empty());
  index.mean = std::move(mean);
  for (int64_t i = 0; i < batch.count; ++i) {
    const int64_t id = ids.empty() ? index.next_id : ids[size_t(i)];
    columns.ids[size_t(first + i)] = id;
    index.next_id = std::max(index.next_id, id + 1);
  }
  // A task is a block: its vectors share bytes.
  const int64_t first_block = first / kBlockVectors;
  parallel_for(int(blocks_of(count) - first_block), threads, [&](int task, int worker) {
    const int64_t from = (first_block + task) * kBlockVectors;
    encode_block(index, batch, first, std::max(first, from), std::min(count, from + kBlockVectors),
                 workspaces[size_t(worker)], columns);
  });
  index.count = count;
}

}  // namespace kvasir
