// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/fitted_codecs.h"

#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "host/model_files.h"
#include "host/model_fingerprint.h"
#include "host/plan_geometry.h"
#include "host/rotation_files.h"
#include "kvasir/error.h"

namespace kvasir {

namespace fs = std::filesystem;

namespace {

bool is_oscar(const std::string& name) {
  return name.substr(0, name.find(':')) == "oscar2";
}

// What rotations from a file can't stand for: other codecs, and the mean of the keys.
bool needs_calibration(const std::string& name) {
  return is_fitted_codec(name) && (!is_oscar(name) || name.find(":mean=on") != std::string::npos);
}

// Whether it is so for the codec of any layer's keys or values.
bool any_codec(const CacheOptions& options, Side side, bool (*is_so)(const std::string& name)) {
  const bool keys = side == Side::key;
  bool found = is_so(keys ? options.key : options.value);
  for (const LayerOverride& rule : options.overrides) found = found || is_so(keys ? rule.key : rule.value);
  return found;
}

// What is asked of a model, and only when it is: both take reading its file.
struct ModelFacts {
  std::function<std::string()> fingerprint;
  std::function<Geometry()> geometry;
};

void check_tuned(const CacheOptions& options, const ModelFacts& model) {
  if (options.tuned.empty() || options.tuned_for == model.fingerprint()) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("`{}` was tuned for another model ({}), not this one ({}); make one with kvasir tune",
                          options.tuned, options.tuned_for, model.fingerprint()));
}

}  // namespace

bool names_fitted_codec(const CacheOptions& options) {
  const auto is_fitted = [](const std::string& name) { return is_fitted_codec(name); };
  return any_codec(options, Side::key, is_fitted) || any_codec(options, Side::value, is_fitted);
}

std::string kept_calibration_path(const std::string& fingerprint) {
  return (cache_folder() / "calibrations" / (fingerprint + ".safetensors")).string();
}

std::string kept_calibration(const std::string& fingerprint) {
  try {
    return kept_calibration_path(fingerprint);
  } catch (const Error&) {
    return {};
  }
}

std::shared_ptr<const CodecFits> calibration_fits(const std::string& file, const std::string& fingerprint) {
  // Fits take a second to make: one set for all caches of this process, as long as the file stays as it is.
  static std::mutex mutex;
  static std::map<std::pair<std::string, fs::file_time_type>, std::shared_ptr<const CodecFits>> known;
  if (!fs::exists(file)) throw Error(ErrorCode::not_found, fmt::format("there is no calibration `{}`", file));
  const std::lock_guard lock(mutex);
  auto& fits = known[{file, fs::last_write_time(file)}];
  if (!fits) fits = std::make_shared<const CodecFits>(load_calibration(file));
  if (fits->calibration()->unfinished)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("`{}` is what an unfinished run of kvasir calibrate keeps; run it again to its end", file));
  if (fits->calibration()->model != fingerprint)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the calibration `{}` was made with {} ({}), not with this model ({}); make one with "
                            "kvasir calibrate",
                            file, fits->calibration()->name, fits->calibration()->model, fingerprint));
  return fits;
}

namespace {

CacheOptions resolve(CacheOptions options, const ModelFacts& model) {
  check_tuned(options, model);
  if (options.automatic &&
      (!options.calibration.empty() || (options.use_kept && fs::exists(kept_calibration(model.fingerprint())))))
    options.key = options.value = kFittedAuto;
  if (options.fitted) return options;
  if (!names_fitted_codec(options)) return options;
  if (!options.use_kept && options.calibration.empty() && options.rotations.empty())
    throw Error(ErrorCode::invalid_argument,
                "--no-calibration leaves nothing that a fitted codec could come from: choose another --kv, or give "
                "--calibration FILE");
  const bool keys = any_codec(options, Side::key, is_oscar), values = any_codec(options, Side::value, is_oscar);
  const bool given = !options.rotations.empty() && (keys || values);
  std::string file = options.calibration;
  if (file.empty() && (!given || any_codec(options, Side::key, needs_calibration) ||
                       any_codec(options, Side::value, needs_calibration))) {
    file = kept_calibration_path(model.fingerprint());
    if (!fs::exists(file)) file.clear();
  }
  if (file.empty() && !given)
    throw Error(ErrorCode::not_found,
                fmt::format("codec {} is fitted to the model, and there is no calibration of this one yet: run "
                            "kvasir calibrate -m MODEL, or give --calibration FILE",
                            is_fitted_codec(options.key) ? options.key : options.value));
  std::shared_ptr<const CodecFits> fits;
  if (!file.empty()) fits = calibration_fits(file, model.fingerprint());
  if (given) {
    const Geometry geometry = model.geometry();
    GivenRotations rotations = read_given_rotations(options.rotations, geometry, keys, values);
    fits = fits ? std::make_shared<const CodecFits>(fits->calibration(), std::move(rotations))
                : std::make_shared<const CodecFits>(geometry, std::move(rotations));
  }
  if (!options.tuned_fits.empty() && fits->description() != options.tuned_fits)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("`{}` was tuned with codecs fitted by {}, not by {}: give --calibration FILE with that one, "
                    "or tune again",
                    options.tuned, options.tuned_fits, fits->description()));
  options.fitted = std::move(fits);
  return options;
}

}  // namespace

CacheOptions with_fitted_codecs(CacheOptions options, const Model& model) {
  return resolve(std::move(options), {[&] { return model.fingerprint(); }, [&] { return model.geometry(); }});
}

CacheOptions with_fitted_codecs(CacheOptions options, const std::string& model_path) {
  std::optional<std::string> known;
  const auto fingerprint = [&] {
    if (!known) known = model_fingerprint(model_path);
    return *known;
  };
  return resolve(std::move(options), {fingerprint, [&] { return geometry_from_gguf(model_path); }});
}

}  // namespace kvasir
