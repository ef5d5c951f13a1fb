// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "kvasir/error.h"
#include "vector/index_impl.h"

namespace kvasir {

void check_options(const VectorIndexOptions& options) {
  const auto refuse = [](const std::string& what) { throw Error(ErrorCode::invalid_argument, what); };
  if (options.dim < 1 || options.dim > 65536)
    refuse("an index takes vectors of 1 to 65536 numbers, got " + std::to_string(options.dim));
  if (options.bits < 1 || options.bits > 4) refuse("--bits takes 1 to 4, got " + std::to_string(options.bits));
  if (options.code == VectorCode::trellis && options.bits != 2 && options.bits != 4)
    refuse("--code trellis takes --bits 2 or 4, got " + std::to_string(options.bits));
}

VectorIndexImpl::VectorIndexImpl(const VectorIndexOptions& o, const CodeTable& table)
    : options(o), encoder(o.dim, table, o.seed) {}

size_t VectorIndexImpl::stored_bytes() const {
  if (options.rerank == RerankStore::none) return 0;
  return size_t(options.dim) * (options.rerank == RerankStore::f16 ? sizeof(uint16_t) : sizeof(float));
}

int64_t VectorIndexImpl::position_of(int64_t id) const {
  const std::span<const int64_t> all = ids.get();
  const auto found = std::find(all.begin(), all.end(), id);
  return found == all.end() ? -1 : found - all.begin();
}

VectorIndex::VectorIndex(const VectorIndexOptions& options) {
  check_options(options);
  impl_ = std::make_unique<VectorIndexImpl>(options, make_code_table(options.code, options.bits));
}
VectorIndex::VectorIndex(std::unique_ptr<VectorIndexImpl> impl) : impl_(std::move(impl)) {}
VectorIndex::~VectorIndex() = default;
VectorIndex::VectorIndex(VectorIndex&&) noexcept = default;
VectorIndex& VectorIndex::operator=(VectorIndex&&) noexcept = default;

int64_t VectorIndex::size() const {
  return impl_->count;
}
bool VectorIndex::contains(int64_t id) const {
  return impl_->position_of(id) >= 0;
}
std::vector<int64_t> VectorIndex::ids() const {
  const std::span<const int64_t> all = impl_->ids.get();
  return {all.begin(), all.end()};
}
const VectorIndexOptions& VectorIndex::options() const {
  return impl_->options;
}
int VectorIndex::channels() const {
  return impl_->encoder.channels();
}

VectorIndexSize VectorIndex::bytes() const {
  const size_t count = size_t(impl_->count);
  VectorIndexSize size;
  size.codes = count * impl_->code_bytes() / kBlockVectors;
  size.scales = count * sizeof(float) * (1u + (impl_->has_lengths() ? 1u : 0u) + (impl_->mean.empty() ? 0u : 1u));
  size.ids = count * sizeof(int64_t);
  size.stored = count * impl_->stored_bytes();
  return size;
}

std::vector<float> VectorIndex::decode(int64_t id) const {
  const int64_t position = impl_->position_of(id);
  if (position < 0) throw Error(ErrorCode::not_found, "the index holds no vector " + std::to_string(id));
  const VectorEncoder& encoder = impl_->encoder;
  std::vector<uint8_t> codes(static_cast<size_t>(encoder.channels()));
  const int64_t block = position / kBlockVectors;
  read_codes(encoder.table().bits, encoder.channels(), int(position % kBlockVectors),
             impl_->codes.get().data() + size_t(block) * impl_->code_bytes(), codes.data());
  std::vector<float> x(size_t(encoder.dim()));
  encoder.decode(codes.data(), impl_->scales.get()[size_t(position)], impl_->mean, x.data());
  if (impl_->options.metric == VectorMetric::cosine) {
    const float length = impl_->lengths.get()[size_t(position)];
    for (float& value : x) value *= length;
  }
  return x;
}

void VectorIndex::remove(std::span<const int64_t> ids) {
  VectorIndexImpl& index = *impl_;
  std::unordered_map<int64_t, int64_t> positions;
  for (int64_t i = 0; i < index.count; ++i) positions.emplace(index.ids.get()[size_t(i)], i);
  std::unordered_set<int64_t> asked;
  for (const int64_t id : ids) {
    if (!positions.contains(id))
      throw Error(ErrorCode::not_found, "the index holds no vector " + std::to_string(id) + "; nothing was removed");
    if (!asked.insert(id).second)
      throw Error(ErrorCode::invalid_argument, "vector " + std::to_string(id) + " is named twice; nothing was removed");
  }

  // Everything that may be short of memory comes before the first change.
  const int bits = index.encoder.table().bits, channels = index.encoder.channels();
  std::vector<uint8_t> row(static_cast<size_t>(channels));
  const size_t width = index.stored_bytes(), slots = index.scales.get().size();
  const std::span<uint8_t> codes = index.codes.resize(index.codes.get().size());
  const std::span<float> scales = index.scales.resize(slots);
  const std::span<float> lengths = index.lengths.resize(index.lengths.get().size());
  const std::span<float> along = index.along.resize(index.along.get().size());
  const std::span<int64_t> all = index.ids.resize(size_t(index.count));
  const std::span<uint8_t> stored = index.stored.resize(index.stored.get().size());
  const auto block = [&](int64_t position) {
    return codes.data() + size_t(position / kBlockVectors) * index.code_bytes();
  };
  for (const int64_t id : ids) {
    const int64_t gap = positions.at(id), last = --index.count;
    read_codes(bits, channels, int(last % kBlockVectors), block(last), row.data());
    write_codes(bits, channels, int(gap % kBlockVectors), row.data(), block(gap));
    scales[size_t(gap)] = scales[size_t(last)];
    if (!lengths.empty()) lengths[size_t(gap)] = lengths[size_t(last)];
    if (!along.empty()) along[size_t(gap)] = along[size_t(last)];
    all[size_t(gap)] = all[size_t(last)];
    positions[all[size_t(gap)]] = gap;
    std::copy_n(stored.begin() + ptrdiff_t(size_t(last) * width), width,
                stored.begin() + ptrdiff_t(size_t(gap) * width));
    // Empty places are zero, so that equal contents are equal bytes.
    std::fill(row.begin(), row.end(), uint8_t{0});
    write_codes(bits, channels, int(last % kBlockVectors), row.data(), block(last));
    scales[size_t(last)] = 0.0f;
    if (!lengths.empty()) lengths[size_t(last)] = 0.0f;
    if (!along.empty()) along[size_t(last)] = 0.0f;
  }
  const size_t blocks = size_t(blocks_of(index.count));
  index.codes.resize(blocks * index.code_bytes());
  index.scales.resize(blocks * kBlockVectors);
  if (index.has_lengths()) index.lengths.resize(blocks * kBlockVectors);
  if (!index.mean.empty()) index.along.resize(blocks * kBlockVectors);
  index.ids.resize(size_t(index.count));
  index.stored.resize(size_t(index.count) * width);
}

}  // namespace kvasir
