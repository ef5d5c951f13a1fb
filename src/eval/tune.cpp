// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "cache/tuned_file.h"
#include "calibrate/rotation_set.h"
#include "eval/many_klds.h"
#include "eval/text_chunks.h"
#include "host/fitted_codecs.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

constexpr int kDefaultGroups = 6;
constexpr double kSameBits = 1e-9;  // sums of shares differ in their last digits

std::vector<std::string> default_candidates(const TuneOptions& options) {
  const bool calibrated =
      !options.cache.calibration.empty() ||
      (options.cache.use_kept && std::filesystem::exists(kept_calibration_path(options.model->fingerprint())));
  if (calibrated) return {"spectral2", "spectral2.5", "spectral3", "spectral3.5", "spectral4"};
  return {"turbo2", "turbo2.5", "turbo3", "turbo3.5", "turbo4.5", "q8"};
}

void note(const TuneOptions& options, const std::string& line) {
  if (options.note) options.note(line);
}

// `cache` with what makes its fitted codecs, if `name` is one.
CacheOptions with_fits(CacheOptions cache, const std::string& name, const TuneOptions& options) {
  cache.automatic = false;
  cache.key = cache.value = name;
  cache.overrides.clear();
  return with_fitted_codecs(std::move(cache), *options.model);
}

// Units, candidates and the bits of the table.
TuneResult lay_out(const TuneOptions& options, CacheOptions& cache) {
  const Geometry& geometry = options.model->geometry();
  const int layers = int(geometry.layers.size());
  const int groups = options.groups > 0 ? options.groups : std::min(kDefaultGroups, layers);
  if (groups > layers)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--groups takes 1 to {}, the model's layers, got {}", layers, options.groups));
  TuneResult result;
  result.units = tune_units(layers, groups);
  result.table.resize(result.units.size());
  const bool given = !options.candidates.empty();
  for (const std::string& name : given ? options.candidates : default_candidates(options)) try {
      cache = with_fits(cache, name, options);
      const std::vector<double> bits = unit_bits(geometry, cache, result.units, name);
      if (cache.fitted) result.fitted_by = cache.fitted->description();
      for (size_t unit = 0; unit < bits.size(); ++unit) result.table[unit].push_back({bits[unit], 0});
      result.candidates.push_back(name);
    } catch (const Error& error) {
      if (given || error.code() != ErrorCode::unsupported) throw;
      note(options, fmt::format("without {}: {}", name, error.what()));
    }
  return result;
}

void check_bits(const TuneResult& layout, double wanted) {
  double cheapest = 0, dearest = 0;
  for (const std::vector<TuneCell>& cells : layout.table) {
    const auto [least, most] = std::ranges::minmax_element(cells, {}, &TuneCell::bits);
    cheapest += least->bits;
    dearest += most->bits;
  }
  if (wanted < cheapest - kSameBits) throw Error(ErrorCode::invalid_argument, too_few_bits(wanted, cheapest, dearest));
}

ManyKldsJob make_job(const TuneOptions& options, const CacheOptions& cache) {
  ManyKldsJob job;
  job.model = options.model;
  job.windows = cut_chunks(*options.model, options.text, options.context, options.chunks);
  job.base = cache;
  job.base.key = job.base.value = "f16";
  job.base.overrides.clear();
  job.micro_batch = options.micro_batch;
  job.threads = options.threads;
  return job;
}

void measure_table(const TuneOptions& options, const CacheOptions& cache, const ManyKldsJob& job, TuneResult& result) {
  std::vector<CacheOptions> caches;
  for (size_t unit = 0; unit < result.units.size(); ++unit)
    for (const std::string& name : result.candidates) caches.push_back(single_options(cache, result.units, unit, name));
  const std::vector<ManyKldsResult> measured = measure_klds(job, caches);
  for (size_t i = 0; i < measured.size(); ++i) {
    const size_t unit = i / result.candidates.size(), candidate = i % result.candidates.size();
    TuneCell& cell = result.table[unit][candidate];
    cell.kld = measured[i].failure.empty() ? measured[i].kld.mean : std::numeric_limits<double>::infinity();
    if (!measured[i].failure.empty())
      note(options, fmt::format("without {} in layers {}-{}: {}", result.candidates[candidate],
                                result.units[unit].first, result.units[unit].last, measured[i].failure));
  }
}

// The chosen point and the candidates that a cache of one codec could take for as many bits, all in one pass.
void verify(const TuneOptions& options, const CacheOptions& cache, const ManyKldsJob& job, TuneResult& result) {
  const FrontierPoint& chosen = result.frontier[result.chosen];
  std::vector<TunedCache> entries = {{"", chosen.bits, {}}};
  std::vector<CacheOptions> caches = {tuned_options(cache, result.units, result.names(chosen))};
  for (size_t candidate = 0; candidate < result.candidates.size(); ++candidate) {
    double bits = 0;
    for (const std::vector<TuneCell>& cells : result.table) bits += cells[candidate].bits;
    if (bits > chosen.bits + kSameBits) continue;
    const std::string& name = result.candidates[candidate];
    entries.push_back({name, bits, {}});
    caches.push_back(tuned_options(cache, result.units, std::vector<std::string>(result.units.size(), name)));
  }
  const std::vector<ManyKldsResult> measured = measure_klds(job, caches);
  if (!measured[0].failure.empty())
    throw Error(ErrorCode::unsupported, "the chosen cache can't be measured: " + measured[0].failure);
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i].kld = measured[i].kld;
    if (i == 0)
      result.measured = entries[i];
    else if (measured[i].failure.empty())
      result.uniform.push_back(entries[i]);
    else
      note(options, fmt::format("no {} in all layers: {}", entries[i].name, measured[i].failure));
  }
}

}  // namespace

std::vector<std::string> TuneResult::names(const FrontierPoint& point) const {
  std::vector<std::string> codecs;
  for (const int candidate : point.choice) codecs.push_back(candidates[size_t(candidate)]);
  return codecs;
}

const TunedCache* TuneResult::best_uniform() const {
  const auto best = std::ranges::min_element(uniform, {}, [](const TunedCache& cache) { return cache.kld.mean; });
  return best == uniform.end() ? nullptr : &*best;
}

TuneResult run_tune(const TuneOptions& options) {
  if (packed_boundary(options.context / 2, options.cache.sink, options.cache.recent) <= options.cache.sink)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("a window of {} tokens has nothing packed where scoring begins (its middle): choose a longer "
                    "-c, or a smaller --sink or --recent than {} and {}",
                    options.context, options.cache.sink, options.cache.recent));
  CacheOptions cache = options.cache;
  TuneResult result = lay_out(options, cache);
  if (result.candidates.empty())
    throw Error(ErrorCode::unsupported, "no default candidate fits this model's heads; name some with --candidates");
  if (options.bits) check_bits(result, *options.bits);
  ManyKldsJob job = make_job(options, cache);
  const auto report = [&](const char* what) {
    job.progress = [&options, what](int64_t done, int64_t total) {
      if (options.progress) options.progress(what, done, total);
    };
  };
  report("measuring");
  measure_table(options, cache, job, result);
  result.frontier = tune_frontier(result.table);
  result.chosen =
      options.bits ? point_for_bits(result.frontier, *options.bits) : point_for_kld(result.frontier, *options.kld);
  report("verifying");
  verify(options, cache, job, result);
  return result;
}

nlohmann::ordered_json tune_json(const TuneOptions& options, const TuneResult& result) {
  using Json = nlohmann::ordered_json;
  const auto layers_text = [&](const FrontierPoint& point) {
    return kv_layers_text(result.units, result.names(point));
  };
  const auto cache_json = [](const TunedCache& cache) {
    return Json{{"kv", cache.name}, {"bits", cache.bits}, {"kld", cache.kld.mean}, {"kld_se", cache.kld.se}};
  };
  const FrontierPoint& chosen = result.frontier[result.chosen];
  const std::vector<std::string> names = result.names(chosen);
  Json frontier = Json::array(), units = Json::array(), uniform = Json::array();
  for (const FrontierPoint& point : result.frontier)
    frontier.push_back({{"bits", point.bits}, {"kld", point.kld}, {"kv_layers", layers_text(point)}});
  for (size_t i = 0; i < result.units.size(); ++i) {
    const TuneUnit& unit = result.units[i];
    Json cells = Json::array();
    for (size_t j = 0; j < result.candidates.size(); ++j)  // JSON has no infinity: a run that failed is null
      cells.push_back(
          {{"codec", result.candidates[j]}, {"bits", result.table[i][j].bits}, {"kld", result.table[i][j].kld}});
    units.push_back(
        {{"first", unit.first}, {"last", unit.last}, {"side", side_name(unit.side)}, {"candidates", cells}});
  }
  for (const TunedCache& cache : result.uniform) uniform.push_back(cache_json(cache));
  const TunedCache* best = result.best_uniform();
  Json target;
  if (options.bits) target["bits"] = *options.bits;
  if (options.kld) target["kld"] = *options.kld;
  return {
      {"format", kTunedFormat},
      {"model", options.model->fingerprint()},
      {"name", options.model->name()},
      {"kv", names[0] + "," + names[1]},
      {"kv_layers", layers_text(chosen)},
      {"target", target},
      {"bits", chosen.bits},
      {"kld",
       {{"predicted", chosen.kld}, {"measured", result.measured.kld.mean}, {"measured_se", result.measured.kld.se}}},
      {"best_uniform", best ? cache_json(*best) : Json()},
      {"frontier", frontier},
      {"units", units},
      {"uniform", uniform},
      {"candidates", result.candidates},
      {"fitted_by", result.fitted_by},
      {"text", options.text_name},
      {"context", options.context},
      {"chunks", options.chunks},
      {"sink", options.cache.sink},
      {"recent", options.cache.recent},
      {"protect", options.cache.protect}};
}

}  // namespace kvasir
