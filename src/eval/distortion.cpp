// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/distortion.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "base/half.h"
#include "base/parallel.h"
#include "base/random.h"
#include "codec/page_codec.h"
#include "eval/sphere_theory.h"

namespace kvasir {
namespace {

// Independent streams: SplitMix moves its state by a constant a draw, so seeds are spread by mixing, not by adding.
uint64_t stream_seed(uint64_t seed, uint64_t stream) {
  return SplitMix(SplitMix(seed).next() ^ (stream * 0xd1342543de82ef95ull + 1)).next();
}

// Sums of one page, added up in page order so that the result doesn't depend on threads.
struct PageSums {
  double error = 0, energy = 0, input = 0;
  double signal = 0;              // sum <q, x - m>
  double spread_direct = 0;       // sum d <q, e>^2 / |q|^2, q independent
  double bias[kPageTokens] = {};  // <q, e> of each vector, q along the key
};

PageSums measure_page(const SideLayout& layout, const float* x, uint64_t seed) {
  const int dim = layout.dim();
  std::vector<std::byte> page(layout.bytes);
  std::vector<float> decoded(size_t(kPageTokens) * size_t(dim)), mean(size_t(dim), 0.0f),
      mapped_mean(size_t(layout.mapped_dim()), 0.0f);
  encode_page(layout, 0, x, page.data());
  decode_page(layout, 0, page.data(), decoded.data());
  if (layout.codec.center) {
    for (int c = 0; c < dim; ++c) mapped_mean[size_t(c)] = f16_to_float(layout.means(page.data())[c]);
    ChannelMap(layout, 0, channel_order(layout, page.data())).inverse(mapped_mean.data(), mean.data());
  }
  PageSums sums;
  SplitMix random(seed);
  std::vector<double> error(size_t(dim), 0), signal(size_t(dim), 0), noise(size_t(dim), 0);
  for (int t = 0; t < kPageTokens; ++t) {
    const float *in = x + t * dim, *out = decoded.data() + t * dim;
    double error_energy = 0, energy = 0, noise_energy = 0, noise_error = 0, noise_signal = 0, signal_error = 0;
    for (int c = 0; c < dim; ++c) {
      const size_t i = size_t(c);
      error[i] = double(out[c]) - double(in[c]);
      signal[i] = double(in[c]) - double(mean[i]);
      noise[i] = random.normal();
      error_energy += error[i] * error[i];
      energy += signal[i] * signal[i];
      sums.input += double(in[c]) * double(in[c]);
      noise_energy += noise[i] * noise[i];
      noise_error += noise[i] * error[i];
      noise_signal += noise[i] * signal[i];
      signal_error += signal[i] * error[i];
    }
    const double weight = std::sqrt(energy / dim);
    sums.error += error_energy;
    sums.energy += energy;
    sums.signal += energy + weight * noise_signal;
    sums.bias[t] = signal_error + weight * noise_error;
    sums.spread_direct += dim * noise_error * noise_error / noise_energy;
  }
  return sums;
}

void add_theory(const Codec& codec, Distortion& result) {
  const bool known = codec.scale_fit == ScaleFit::norm || codec.scale_fit == ScaleFit::matched ||
                     codec.scale_fit == ScaleFit::unbiased || codec.scale_fit == ScaleFit::least_squares;
  if (!known || codec.sort_channels || codec.dim < 4) return;
  SphereTheory theory;
  theory.mse = 1;  // without levels all is residual
  const SideLayout layout(codec);
  if (layout.segments[0].trellis) return;  // has no closed form
  if (!layout.segments[0].signs) {
    const Codebook& codebook = *layout.segments[0].codebook;
    theory = sphere_theory(codebook, codec.scale_fit, codec.dim);
    result.gaussian_mse = codebook.gaussian_mse();
  }
  if (layout.projection != nullptr) {
    theory.mse *= residual_sign_error(codec.projection, codec.dim);
    theory.bias = 0;
  }
  result.theory_mse = theory.mse;
  result.theory_bias = theory.bias;
}

}  // namespace

PageSource gaussian_pages(int dim, uint64_t seed) {
  return [dim, seed](int64_t page, float* x) {
    SplitMix random(stream_seed(seed, 2 * uint64_t(page)));
    for (int i = 0; i < kPageTokens * dim; ++i) x[i] = float(random.normal());
  };
}

PageSource spike_pages(int dim, uint64_t seed) {
  return [dim, seed](int64_t page, float* x) {
    SplitMix random(stream_seed(seed, 2 * uint64_t(page)));
    std::fill_n(x, kPageTokens * dim, 0.0f);
    for (int t = 0; t < kPageTokens; ++t) x[t * dim + int(random.below(uint64_t(dim)))] = float(random.normal());
  };
}

PageSource constant_pages(int dim, uint64_t seed) {
  return [dim, seed](int64_t page, float* x) {
    SplitMix random(stream_seed(seed, 2 * uint64_t(page)));
    for (int t = 0; t < kPageTokens; ++t) std::fill_n(x + t * dim, dim, float(random.normal()));
  };
}

PageSource outlier_pages(int dim, uint64_t seed) {
  constexpr int kOutliers = 4;
  const PageSource plain = gaussian_pages(dim, seed);
  const uint64_t first = SplitMix(seed).below(uint64_t(dim));
  return [dim, plain, first](int64_t page, float* x) {
    plain(page, x);
    for (int t = 0; t < kPageTokens; ++t)
      for (int i = 0; i < kOutliers; ++i)
        x[t * dim + int((first + uint64_t(i * dim / kOutliers)) % uint64_t(dim))] *= 20;
  };
}

PageSource given_pages(int dim, std::span<const float> rows) {
  const size_t size = size_t(kPageTokens) * size_t(dim);
  return [rows, size](int64_t page, float* x) { std::copy_n(rows.data() + size_t(page) * size, size, x); };
}

Distortion measure_distortion(const Codec& codec, const PageSource& source, int64_t pages, uint64_t seed, int threads,
                              bool with_theory) {
  const SideLayout layout(codec);
  std::vector<PageSums> sums(size_t(pages), PageSums{});
  parallel_for(int(pages), threads, [&](int page, int) {
    std::vector<float> x(size_t(kPageTokens) * size_t(codec.dim));
    source(page, x.data());
    sums[size_t(page)] = measure_page(layout, x.data(), stream_seed(seed, 2 * uint64_t(page) + 1));
  });

  PageSums total;
  std::vector<double> biases;
  biases.reserve(size_t(pages) * kPageTokens);
  for (const PageSums& page : sums) {
    total.error += page.error;
    total.energy += page.energy;
    total.input += page.input;
    total.signal += page.signal;
    total.spread_direct += page.spread_direct;
    biases.insert(biases.end(), std::begin(page.bias), std::end(page.bias));
  }
  Distortion result;
  result.vectors = pages * kPageTokens;
  if (total.energy > 0) {
    result.mse = total.error / total.energy;
    result.mse_input = total.error / total.input;
    result.ip_bias = mean_error(biases);
    const double signal = total.signal / double(result.vectors);
    result.ip_bias.mean /= signal;
    result.ip_bias.se /= signal;
    result.ip_var = total.spread_direct / total.energy;
  }
  if (with_theory) add_theory(codec, result);
  return result;
}

double code_bits(const Codec& codec) {
  double bits = 0;  // of all segments: signs of a residual are bits of the same channels
  for (const Segment& segment : codec.segments) bits += double(segment.bits) * segment.count;
  return bits / codec.dim;
}

}  // namespace kvasir
