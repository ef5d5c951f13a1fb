// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/layer_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "base/replaced_file.h"
#include "host/model_files.h"
#include "kvasir/error.h"
#include "select/layer_budgets.h"

namespace kvasir {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "kvasir layer profile 1";

double cosine(const float* a, const float* b, int dim) {
  double dot = 0, aa = 0, bb = 0;
  for (int c = 0; c < dim; ++c) {
    dot += double(a[c]) * double(b[c]);
    aa += double(a[c]) * double(a[c]);
    bb += double(b[c]) * double(b[c]);
  }
  return aa > 0 && bb > 0 ? dot / std::sqrt(aa * bb) : 1.0;
}

// The past of a block's end: sinks and half a block.
void cut_past(Cache& cache, SequenceId sequence, int block) {
  const int64_t length = cache.length(sequence);
  for (int layer = 0; layer < int(cache.geometry().layers.size()); ++layer) {
    const LayerGeometry& shape = cache.geometry().layers[size_t(layer)];
    if (shape.window > 0) continue;
    std::vector<int32_t> kept;
    for (int64_t p = std::max<int64_t>(cache.options().sink, length - block / 2); p < length; ++p)
      kept.push_back(int32_t(p));
    cache.keep(sequence, layer, std::vector<std::vector<int32_t>>(size_t(shape.kv_heads), kept));
  }
}

}  // namespace

LayerProfile profile_layers(const std::shared_ptr<Model>& model, std::span<const int32_t> tokens,
                            const ProfileOptions& options) {
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  if (options.block < 2 || options.micro_batch < 2 || options.threads < 1 || options.sink < 0)
    refuse("a profile takes blocks and micro-batches of 2 or more tokens, 1 or more threads and no negative sink");
  const int64_t count = std::min<int64_t>(int64_t(tokens.size()), options.tokens);
  if (count <= options.block)
    refuse(fmt::format("{} tokens are no more than a block of {}, so nothing would be cut; give a longer text", count,
                       options.block));
  EngineOptions engine_options;
  engine_options.cache.key = engine_options.cache.value = "f16";
  engine_options.cache.sink = options.sink;
  engine_options.cache.recent = 0;
  engine_options.context = count;
  engine_options.micro_batch = options.micro_batch;
  engine_options.threads = options.threads;
  const size_t layers = model->geometry().layers.size();
  std::vector<double> sum(layers, 0.0);
  // The whole past's rows come first, the cut one's behind them.
  engine_options.observe = [&](int layer, const AttentionRows& rows) {
    const LayerGeometry& shape = model->geometry().layers[size_t(layer)];
    const int half = rows.tokens / 2;
    for (int t = 0; t < half; ++t)
      for (int head = 0; head < shape.kv_heads; ++head) {
        const float* whole = rows.k.data + t * rows.k.token_stride + head * rows.k.head_stride;
        sum[size_t(layer)] += cosine(whole, whole + half * rows.k.token_stride, shape.key_dim);
      }
  };
  Engine engine(model, engine_options);
  const SequenceId whole = engine.cache().create(), cut = engine.cache().create();
  const int64_t step = options.micro_batch / 2;
  for (int64_t done = 0; done < count;) {
    const int64_t block_end = (done / options.block + 1) * options.block;
    const int64_t end = std::min({count, block_end, done + step});
    const std::span<const int32_t> piece = tokens.subspan(size_t(done), size_t(end - done));
    const EngineSpan spans[] = {{whole, piece, false}, {cut, piece, false}};
    engine.decode(spans, {});
    if (end == block_end) cut_past(engine.cache(), cut, options.block);
    done = end;
    if (options.progress) options.progress(done, count);
  }
  LayerProfile profile{model->fingerprint(), options.text_name, count, options.block, options.sink, {}};
  for (size_t l = 0; l < layers; ++l) {
    const LayerGeometry& shape = model->geometry().layers[l];
    profile.similarity.push_back(shape.window > 0 ? 1.0 : sum[l] / double(count * shape.kv_heads));
  }
  return profile;
}

std::vector<int64_t> profiled_budgets(const Model& model, const LayerProfile& profile, int64_t budget, double alpha) {
  const std::vector<LayerGeometry>& layers = model.geometry().layers;
  if (profile.model != model.fingerprint() || profile.similarity.size() != layers.size())
    throw Error(ErrorCode::invalid_argument, "the layer profile is of another model");
  std::vector<double> selected;
  for (size_t l = 0; l < layers.size(); ++l)
    if (layers[l].window == 0) selected.push_back(profile.similarity[l]);
  if (selected.empty()) return uniform_budgets(model, budget);
  const std::vector<int64_t> shares = layer_budgets(selected, budget, alpha);
  std::vector<int64_t> budgets;
  size_t next = 0;
  for (const LayerGeometry& layer : layers) budgets.push_back(layer.window == 0 ? shares[next++] : budget);
  return budgets;
}

std::vector<int64_t> uniform_budgets(const Model& model, int64_t budget) {
  return std::vector<int64_t>(model.geometry().layers.size(), budget);
}

void save_profile(const LayerProfile& profile, const std::string& path) {
  if (const auto folder = std::filesystem::path(path).parent_path(); !folder.empty())
    std::filesystem::create_directories(folder);
  const std::string text = Json{{"format", kFormat},
                                {"model", profile.model},
                                {"text", profile.text},
                                {"tokens", profile.tokens},
                                {"block", profile.block},
                                {"sink", profile.sink},
                                {"similarity", profile.similarity}}
                               .dump(2) +
                           "\n";
  ReplacedFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

LayerProfile load_profile(const std::string& path) {
  const MappedFile file(path);
  const auto* text = reinterpret_cast<const char*>(file.bytes().data());
  try {
    const Json json = Json::parse(text, text + file.bytes().size());
    if (json.at("format") != kFormat) throw Error(ErrorCode::corrupt, "`" + path + "` is no layer profile");
    LayerProfile profile{json.at("model"), json.at("text"), json.at("tokens"),
                         json.at("block"), json.at("sink"), json.at("similarity")};
    for (const double s : profile.similarity)
      if (!(std::abs(s) <= 1 + 1e-9)) throw Error(ErrorCode::corrupt, "`" + path + "` holds a similarity of no cosine");
    return profile;
  } catch (const Json::exception&) {
    throw Error(ErrorCode::corrupt, "`" + path + "` is no layer profile; delete it, and it is made anew");
  }
}

std::string kept_profile(const std::string& fingerprint) {
  return (cache_folder() / "profiles" / (fingerprint + ".json")).string();
}

}  // namespace kvasir
