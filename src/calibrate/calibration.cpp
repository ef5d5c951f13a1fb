// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/calibration.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>
#include <iterator>

#include "base/safetensors.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

// The plain one has no turning means: keys are summed as they are. Earlier versions wrote 2 for every model; 3 with
// turning means of blocks of 64 positions, when sums held more of the mean than is left in packed keys; and 4 without
// the first keys of texts.
constexpr const char *kPlainFormat = "kvasir calibration 4, plain", *kFormat = "kvasir calibration 5";
constexpr const char* kOldestFormat = "kvasir calibration 2";
constexpr const char* kOlderFormats[] = {"kvasir calibration 3", "kvasir calibration 4"};
constexpr int64_t kMostLayers = 4096, kMostHeads = 4096;
constexpr double kMostScale = 1e6;  // of a layer's scores; 1 / sqrt(dim) in most models

// One named sum of a head, as the file holds it.
struct Entry {
  const char* name;
  std::vector<double> HeadMoments::*sums;
  Side side;
  bool square;
};
constexpr Entry kEntries[] = {
    {"key_sum", &HeadMoments::key_sum, Side::key, false},
    {"attended_key_sum", &HeadMoments::attended_key_sum, Side::key, false},
    {"value_sum", &HeadMoments::value_sum, Side::value, false},
    {"key", &HeadMoments::key, Side::key, true},
    {"attended_key", &HeadMoments::attended_key, Side::key, true},
    {"query", &HeadMoments::query, Side::key, true},
    {"attended_query", &HeadMoments::attended_query, Side::key, true},
    {"value", &HeadMoments::value, Side::value, true},
    {"attended_value", &HeadMoments::attended_value, Side::value, true},
    {"proxy_value", &HeadMoments::proxy_value, Side::value, true},
    {"output", &HeadMoments::output, Side::value, true},
};

int dim_of(const LayerMoments& layer, Side side) {
  return side == Side::key ? layer.key_dim : layer.value_dim;
}

size_t stored_size(const Entry& entry, int dim) {
  return entry.square ? size_t(dim) * size_t(dim + 1) / 2 : size_t(dim);
}

void append_triangle(const std::vector<double>& matrix, int dim, std::vector<double>& out) {
  for (int i = 0; i < dim; ++i)
    for (int j = 0; j <= i; ++j) out.push_back(matrix[size_t(i * dim + j)]);
}

std::vector<double> from_triangle(std::span<const double> stored, int dim) {
  std::vector<double> matrix(size_t(dim) * size_t(dim));
  size_t next = 0;
  for (int i = 0; i < dim; ++i)
    for (int j = 0; j <= i; ++j) matrix[size_t(i * dim + j)] = matrix[size_t(j * dim + i)] = stored[next++];
  return matrix;
}

std::string prefix(size_t layer) {
  return "layers." + std::to_string(layer) + ".";
}

[[noreturn]] void refuse(const SafetensorsFile& file, const std::string& what) {
  throw Error(ErrorCode::corrupt,
              file.path() + " is no calibration: " + what + "; make it again with kvasir calibrate");
}

int64_t whole_number(const SafetensorsFile& file, std::string_view key, int64_t least, int64_t most) {
  const std::string& text = file.metadata(key);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    refuse(file, std::string(key) + " is '" + text + "'");
  return value;
}

LayerMoments read_layer(const SafetensorsFile& file, size_t index) {
  const std::span<const double> shape = file.values<double>(prefix(index) + "shape", {5});
  for (const double number : shape.first(4))
    if (!(number >= 1 && number <= 65536) || number != std::floor(number)) refuse(file, "a layer has no shape");
  LayerMoments layer;
  layer.key_dim = int(shape[0]);
  layer.value_dim = int(shape[1]);
  layer.group = int(shape[2]);
  if (std::max(shape[0], shape[1]) > kMaxHeadDim || shape[3] > kMostHeads)
    refuse(file, "a layer has no shape");
  if (!(shape[4] > 0 && shape[4] < kMostScale)) refuse(file, "a layer's attention has no scale");
  layer.scale = float(shape[4]);
  layer.heads.resize(size_t(shape[3]));
  const auto heads = int64_t(layer.heads.size());
  const std::span<const double> counts = file.values<double>(prefix(index) + "counts", {heads, 4});
  for (size_t h = 0; h < layer.heads.size(); ++h) {
    HeadMoments& head = layer.heads[h];
    head.tokens = counts[4 * h];
    head.queries = counts[4 * h + 1];
    head.attention = counts[4 * h + 2];
    head.squares = counts[4 * h + 3];
    for (const double count : counts.subspan(4 * h, 4))
      if (!(count > 0 && std::isfinite(count))) refuse(file, "a head has seen no tokens");
  }
  for (const Entry& entry : kEntries) {
    const int dim = dim_of(layer, entry.side);
    const size_t size = stored_size(entry, dim);
    const std::span<const double> stored = file.values<double>(prefix(index) + entry.name, {heads, int64_t(size)});
    for (const double number : stored)
      if (!std::isfinite(number)) refuse(file, "it holds numbers that aren't finite");
    for (size_t h = 0; h < layer.heads.size(); ++h) {
      const std::span<const double> own = stored.subspan(h * size, size);
      layer.heads[h].*entry.sums = entry.square ? from_triangle(own, dim) : std::vector<double>(own.begin(), own.end());
    }
  }
  return layer;
}

// The same vector of every head.
std::vector<std::span<const double>> read_vectors(const SafetensorsFile& file, const std::string& name,
                                                  const LayerMoments& layer) {
  const auto heads = int64_t(layer.heads.size());
  const std::span<const double> all = file.values<double>(name, {heads, layer.key_dim});
  for (const double number : all)
    if (!(std::abs(number) < 1e30)) refuse(file, "it holds numbers that aren't finite");
  std::vector<std::span<const double>> own;
  for (size_t h = 0; h < layer.heads.size(); ++h)
    own.push_back(all.subspan(h * size_t(layer.key_dim), size_t(layer.key_dim)));
  return own;
}

// The first keys of so many windows.
void read_firsts(const SafetensorsFile& file, size_t index, int64_t windows, LayerMoments& layer) {
  if (windows < 1) refuse(file, "it has seen no whole window");
  layer.windows = double(windows);
  const auto sums = read_vectors(file, prefix(index) + "first_key_sum", layer);
  for (size_t h = 0; h < layer.heads.size(); ++h) layer.heads[h].first_key_sum.assign(sums[h].begin(), sums[h].end());
}

// How the layer turns, and the means that its keys were summed without.
void read_turning(const SafetensorsFile& file, size_t index, LayerMoments& layer) {
  const TensorView& tensor = file.tensor(prefix(index) + "rotary");
  const int64_t pairs = tensor.shape.size() == 2 ? tensor.shape[0] : -1;
  if (pairs < 0 || pairs > layer.key_dim / 2) refuse(file, "a layer has no way to turn");
  const std::span<const double> rotary = file.values<double>(prefix(index) + "rotary", {pairs, 3});
  std::vector<bool> turns(size_t(layer.key_dim), false);
  for (size_t i = 0; i < size_t(pairs); ++i) {
    for (const double channel : rotary.subspan(3 * i, 2)) {
      if (!(channel >= 0 && channel < layer.key_dim) || channel != std::floor(channel) || turns[size_t(channel)])
        refuse(file, "a pair of channels isn't one");
      turns[size_t(channel)] = true;
    }
    if (!(std::abs(rotary[3 * i + 2]) <= 4)) refuse(file, "an angle isn't one");
    layer.rotary.push_back({int(rotary[3 * i]), int(rotary[3 * i + 1]), rotary[3 * i + 2]});
  }
  const auto means = read_vectors(file, prefix(index) + "key_mean", layer);
  for (size_t h = 0; h < layer.heads.size(); ++h) layer.heads[h].key_mean.assign(means[h].begin(), means[h].end());
}

}  // namespace

void save_calibration(const Calibration& calibration, const std::string& path) {
  SafetensorsWriter writer;
  writer.set_metadata("format", calibration.averaged ? kFormat : kPlainFormat);
  writer.set_metadata("model", calibration.model);
  writer.set_metadata("name", calibration.name);
  writer.set_metadata("text", calibration.text);
  writer.set_metadata("text_hash", calibration.text_hash);
  writer.set_metadata("tokens", std::to_string(calibration.tokens));
  writer.set_metadata("positions", std::to_string(calibration.positions));
  writer.set_metadata("window", std::to_string(calibration.window));
  writer.set_metadata("sink", std::to_string(calibration.sink));
  writer.set_metadata("recent", std::to_string(calibration.recent));
  if (calibration.unfinished) writer.set_metadata("unfinished", "1");
  writer.set_metadata("layers", std::to_string(calibration.layers.size()));
  std::deque<std::vector<double>> kept;  // until save()
  for (size_t i = 0; i < calibration.layers.size(); ++i) {
    const LayerMoments& layer = calibration.layers[i];
    const auto heads = int64_t(layer.heads.size());
    kept.push_back(
        {double(layer.key_dim), double(layer.value_dim), double(layer.group), double(heads), double(layer.scale)});
    writer.add(prefix(i) + "shape", {5}, kept.back());
    kept.emplace_back();
    for (const HeadMoments& head : layer.heads)
      kept.back().insert(kept.back().end(), {head.tokens, head.queries, head.attention, head.squares});
    writer.add(prefix(i) + "counts", {heads, 4}, kept.back());
    if (calibration.averaged) {
      kept.emplace_back();
      for (const RotaryPair& pair : layer.rotary)
        kept.back().insert(kept.back().end(), {double(pair.a), double(pair.b), pair.angle});
      writer.add(prefix(i) + "rotary", {int64_t(layer.rotary.size()), 3}, kept.back());
      kept.emplace_back();
      for (const HeadMoments& head : layer.heads)
        kept.back().insert(kept.back().end(), head.key_mean.begin(), head.key_mean.end());
      writer.add(prefix(i) + "key_mean", {heads, layer.key_dim}, kept.back());
      kept.emplace_back();
      for (const HeadMoments& head : layer.heads)
        kept.back().insert(kept.back().end(), head.first_key_sum.begin(), head.first_key_sum.end());
      writer.add(prefix(i) + "first_key_sum", {heads, layer.key_dim}, kept.back());
    }
    for (const Entry& entry : kEntries) {
      const int dim = dim_of(layer, entry.side);
      kept.emplace_back();
      for (const HeadMoments& head : layer.heads) {
        const std::vector<double>& sums = head.*entry.sums;
        if (entry.square) {
          append_triangle(sums, dim, kept.back());
        } else {
          kept.back().insert(kept.back().end(), sums.begin(), sums.end());
        }
      }
      writer.add(prefix(i) + entry.name, {heads, int64_t(stored_size(entry, dim))}, kept.back());
    }
  }
  writer.save(path);
}

Calibration load_calibration(const std::string& path) {
  const SafetensorsFile file(path);
  const auto found = file.metadata().find("format");
  const std::string format = found == file.metadata().end() ? "" : found->second;
  Calibration calibration;
  const bool has_means =
      std::find(std::begin(kOlderFormats), std::end(kOlderFormats), format) != std::end(kOlderFormats);
  calibration.older = format == kOldestFormat || has_means;
  calibration.averaged = format == kFormat || has_means;
  if (!calibration.older && !calibration.averaged && format != kPlainFormat)
    refuse(file, "its format isn't '" + std::string(kFormat) + "'");
  calibration.unfinished = file.metadata().contains("unfinished");
  calibration.model = file.metadata("model");
  calibration.name = file.metadata("name");
  calibration.text = file.metadata("text");
  calibration.text_hash = file.metadata("text_hash");
  calibration.tokens = whole_number(file, "tokens", 1, int64_t(1) << 50);
  calibration.positions = whole_number(file, "positions", 1, int64_t(1) << 40);
  calibration.window = int(whole_number(file, "window", 1, 1 << 30));
  calibration.sink = int(whole_number(file, "sink", 0, 1 << 30));
  calibration.recent = int(whole_number(file, "recent", 0, 1 << 30));
  const int64_t layers = whole_number(file, "layers", 1, kMostLayers);
  for (int64_t i = 0; i < layers; ++i) {
    calibration.layers.push_back(read_layer(file, size_t(i)));
    if (calibration.averaged) read_turning(file, size_t(i), calibration.layers.back());
    if (format == kFormat)
      read_firsts(file, size_t(i), calibration.tokens / calibration.window, calibration.layers.back());
  }
  return calibration;
}

}  // namespace kvasir
