// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "codec/turning_mean.h"

#include <algorithm>
#include <cmath>
#include <complex>

namespace kvasir {

using Complex = std::complex<double>;

void turn(const Rotary& rotary, double positions, double* x) {
  for (const RotaryPair& pair : rotary) {
    const Complex z = Complex(x[pair.a], x[pair.b]) * std::polar(1.0, pair.angle * positions);
    x[pair.a] = z.real();
    x[pair.b] = z.imag();
  }
}

TurningMean::TurningMean(Rotary rotary, int dim, std::vector<std::vector<float>> means,
                         std::vector<std::vector<float>> firsts)
    : rotary_(std::move(rotary)),
      dim_(dim),
      means_(std::move(means)),
      beyond_(std::move(firsts)),
      near_(turns(1)),
      far_(turns(kBlocks)),
      farthest_(turns(kBlocks * kBlocks)) {
  const size_t pairs = rotary_.size();
  for (const std::vector<float>& mean : means_) {
    std::vector<float> block(2 * pairs);
    for (size_t i = 0; i < pairs; ++i) {
      const RotaryPair& pair = rotary_[i];
      Complex sum = 0;
      for (int p = 0; p < kBlockLength; ++p) sum += std::polar(1.0 / kBlockLength, pair.angle * p);
      sum *= Complex(double(mean[size_t(pair.a)]), double(mean[size_t(pair.b)]));
      block[i] = float(sum.real());
      block[pairs + i] = float(sum.imag());
    }
    block.insert(block.end(), mean.begin(), mean.end());
    for (const RotaryPair& pair : rotary_) block[2 * pairs + size_t(pair.a)] = block[2 * pairs + size_t(pair.b)] = 0.0f;
    blocks_.push_back(std::move(block));
  }
  for (size_t i = 0; i < 2 * pairs; ++i)
    for (int n = 0; n < kBlocks; ++n) block_turns_.push_back(near_[size_t(n) * 2 * pairs + i]);
  block_turns_.insert(block_turns_.end(), kBlocks, 1.0f);
  std::vector<float> block(size_t(dim_), 0.0f);
  for (size_t h = 0; h < beyond_.size(); ++h) {
    of_block(int(h), 0, block.data());
    for (size_t c = 0; c < block.size(); ++c) beyond_[h][c] -= block[c];
  }
}

void TurningMean::write_turn(int64_t blocks, float* by) const {
  const double positions = double(blocks) * kBlockLength;
  for (size_t i = 0; i < rotary_.size(); ++i) {
    by[i] = float(std::cos(rotary_[i].angle * positions));
    by[rotary_.size() + i] = float(std::sin(rotary_[i].angle * positions));
  }
}

std::vector<float> TurningMean::turns(int64_t step) const {
  std::vector<float> table(kBlocks * 2 * rotary_.size());
  for (int n = 0; n < kBlocks; ++n) write_turn(n * step, table.data() + size_t(n) * 2 * rotary_.size());
  return table;
}

void TurningMean::turn_pairs(const float* by, float* re, float* im) const {
  const size_t pairs = rotary_.size();
  for (size_t i = 0; i < pairs; ++i) {
    const float x = re[i] * by[i] - im[i] * by[pairs + i];
    im[i] = re[i] * by[pairs + i] + im[i] * by[i];
    re[i] = x;
  }
}

void TurningMean::of_stretch(int head, int64_t stretch, float* re, float* im) const {
  const size_t pairs = rotary_.size();
  const std::vector<float>& start = blocks_[size_t(head)];
  std::copy_n(start.data(), pairs, re);
  std::copy_n(start.data() + pairs, pairs, im);
  if (stretch >= kBlocks * kBlocks) {  // beyond two million positions
    float by[kMaxHeadDim];
    write_turn(stretch * kBlocks, by);
    return turn_pairs(by, re, im);
  }
  if (stretch % kBlocks > 0) turn_pairs(far_, stretch % kBlocks, re, im);
  if (stretch >= kBlocks) turn_pairs(farthest_, stretch / kBlocks, re, im);
}

void TurningMean::of_block(int head, int64_t position, float* mean) const {
  const size_t pairs = rotary_.size();
  float re[kMaxHeadDim / 2], im[kMaxHeadDim / 2];
  of_stretch(head, stretch_of(position), re, im);
  turn_pairs(near_, block_of(position) % kBlocks, re, im);
  std::copy_n(blocks_[size_t(head)].data() + 2 * pairs, dim_, mean);
  for (size_t i = 0; i < pairs; ++i) {
    mean[rotary_[i].a] = re[i];
    mean[rotary_[i].b] = im[i];
  }
}

void TurningMean::of_position(int head, int64_t position, float* mean) const {
  of_block(head, position, mean);
  if (const float* beyond = position == 0 ? beyond_block(head) : nullptr)
    for (int c = 0; c < dim_; ++c) mean[c] += beyond[c];
}

// <q, m e^(i angle p)> = Re (conj(q) m e^(i angle p)), pair by pair; channels of no pair add the same to every block.
void TurningMean::to_terms(int head, int64_t stretch, const float* q, int rows, float* terms) const {
  const size_t pairs = rotary_.size();
  float re[kMaxHeadDim / 2], im[kMaxHeadDim / 2];
  of_stretch(head, stretch, re, im);
  const float* mean = blocks_[size_t(head)].data() + 2 * pairs;
  for (int r = 0; r < rows; ++r, q += dim_, terms += 2 * pairs + 1) {
    for (size_t i = 0; i < pairs; ++i) {
      const float a = q[rotary_[i].a], b = q[rotary_[i].b];
      terms[i] = a * re[i] + b * im[i];
      terms[pairs + i] = b * re[i] - a * im[i];
    }
    float rest = 0;
    for (int c = 0; c < dim_; ++c) rest += q[c] * mean[c];
    terms[2 * pairs] = rest;
  }
}

template <class Value>
void TurningMean::add(int head, const RowPositions& positions, int count, int sign, Value* rows) const {
  float mean[kMaxHeadDim];
  int64_t of = -1;  // position that `mean` is of; that of position 0 serves no other of its block
  for (int t = 0; t < count; ++t) {
    const int64_t position = positions.at(t);
    if (of <= 0 || position == 0 || block_of(position) != block_of(of)) of_position(head, position, mean);
    of = position;
    for (int c = 0; c < dim_; ++c) rows[t * dim_ + c] += Value(sign) * Value(mean[c]);
  }
}
template void TurningMean::add(int, const RowPositions&, int, int, float*) const;
template void TurningMean::add(int, const RowPositions&, int, int, double*) const;

std::vector<double> TurningMean::numbers() const {
  std::vector<double> all = {kBlockLength};
  for (const RotaryPair& pair : rotary_) all.insert(all.end(), {double(pair.a), double(pair.b), pair.angle});
  for (const auto* vectors : {&means_, &beyond_})
    for (const std::vector<float>& mean : *vectors) all.insert(all.end(), mean.begin(), mean.end());
  return all;
}

}  // namespace kvasir
