// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/codec_fits.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "calibrate/oscar_fit.h"
#include "calibrate/spectral_fit.h"
#include "codec/codec_options.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

// option=value pairs behind a name, taken one by one.
class NameOptions {
 public:
  NameOptions(std::string_view name) : codec_(name.substr(0, name.find(':'))) {
    std::string_view rest = name.substr(codec_.size());
    while (!rest.empty()) {
      rest.remove_prefix(1);
      const std::string_view option = rest.substr(0, rest.find(':'));
      rest.remove_prefix(option.size());
      const size_t equals = option.find('=');
      if (equals == std::string_view::npos || equals + 1 == option.size())
        refuse("'" + std::string(option) + "' is no option with a value, as in scale=unbiased");
      const std::string key(option.substr(0, equals));
      if (std::ranges::any_of(given_, [&](const auto& other) { return other.first == key; }))
        refuse(key + "= is given twice");
      given_.emplace_back(key, option.substr(equals + 1));
    }
  }

  const std::string& codec() const { return codec_; }

  // The value given for an option, which then is used up; or `otherwise`.
  std::string take(std::string_view option, std::string_view otherwise) {
    std::string value(otherwise);
    for (auto it = given_.begin(); it != given_.end();)
      if (it->first == option) {
        value = it->second;
        it = given_.erase(it);
      } else {
        ++it;
      }
    return value;
  }

  template <class T>
  T choose(std::string_view option, const std::vector<std::pair<std::string_view, T>>& choices) {
    return choose_word(codec_, std::string(option) + "=", take(option, choices.front().first), choices);
  }

  double number(std::string_view option, double otherwise, double least, double most) {
    const std::string word = take(option, "");
    return word.empty() ? otherwise : parse(option, word, least, most);
  }

  double parse(std::string_view option, const std::string& word, double least, double most) const {
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || !(value >= least && value <= most))
      refuse(fmt::format("{}= takes a number from {} to {}; got '{}'", option, least, most, word));
    return value;
  }

  // A whole number, or 0 if the option isn't given.
  int count(std::string_view option, int least, int most) {
    const double value = number(option, 0, least, most);
    if (value != std::floor(value)) refuse(std::string(option) + "= takes a whole number");
    return int(value);
  }

  // What nobody took, in `option=value:option=value`. Refuses what isn't among `shared`, the options of any codec's
  // levels; `own` are this codec's, for the message.
  std::string rest(std::span<const std::string_view> shared, std::string_view own) const {
    std::string text;
    for (const auto& [option, value] : given_) {
      if (std::ranges::find(shared, option) == shared.end())
        refuse("no option '" + option + "='; there are " + std::string(own));
      text += (text.empty() ? "" : ":") + option + "=" + value;
    }
    return text;
  }

  [[noreturn]] void refuse(const std::string& message) const {
    throw Error(ErrorCode::invalid_argument, "codec " + codec_ + ": " + message);
  }

 private:
  std::string codec_;
  std::vector<std::pair<std::string, std::string>> given_;
};

OscarOptions oscar_options(NameOptions& given, Side side) {
  OscarOptions options;
  options.rotation = given.choose<OscarRotation>("rotation", {{"uhp", OscarRotation::uhp},
                                                              {"uh", OscarRotation::uh},
                                                              {"u", OscarRotation::u},
                                                              {"h", OscarRotation::h},
                                                              {"none", OscarRotation::none}});
  options.values =
      given.choose<OscarValues>("values", {{"proxy", OscarValues::proxy}, {"scores", OscarValues::scores}});
  options.per_head = given.choose<bool>("heads", {{"shared", false}, {"own", true}});
  options.center = given.choose<bool>("mean", {{"off", false}, {"on", true}});
  const std::string clip = given.take("clip", "");
  options.clip = oscar_clip(side);
  if (clip == "off") {
    options.clip = 0;
  } else if (!clip.empty()) {
    options.clip = float(given.parse("clip", clip, 0.5, 1));
  }
  options.group = given.count("group", kCellChannels, 512);
  if (options.group % kCellChannels != 0) given.refuse("group= takes a multiple of 8");
  return options;
}

SpectralOptions spectral_options(NameOptions& given) {
  SpectralOptions options;
  const std::string bits = given.codec().substr(std::string_view("spectral").size());
  std::from_chars(bits.data(), bits.data() + bits.size(), options.bits);
  if (const int classes = given.count("classes", 1, 16); classes > 0) options.max_classes = classes;
  if (!given.choose<bool>("weights", {{"attention", true}, {"none", false}}))
    options.attended_key = options.attended_query = options.attended_value = 0;
  options.bytes = given.count("bytes", 1, 4096);
  return options;
}

std::shared_ptr<const Calibration> only_shapes(const Geometry& geometry) {
  auto calibration = std::make_shared<Calibration>();
  for (const LayerGeometry& layer : geometry.layers) calibration->layers.emplace_back(layer);
  return calibration;
}

std::vector<std::vector<float>> matrices_of(const RotationSet& set, int layer) {
  const auto found =
      std::find_if(set.layers.begin(), set.layers.end(), [&](const RotationLayer& one) { return one.layer == layer; });
  if (found == set.layers.end()) throw Error(ErrorCode::internal, fmt::format("no rotation of layer {}", layer));
  const auto size = std::ptrdiff_t(found->dim) * found->dim;
  std::vector<std::vector<float>> matrices;
  for (auto next = found->rotation.begin(); next != found->rotation.end(); next += size)
    matrices.emplace_back(next, next + size);
  return matrices;
}

}  // namespace

CodecFits::CodecFits(Calibration calibration)
    : calibration_(std::make_shared<const Calibration>(std::move(calibration))) {}

CodecFits::CodecFits(std::shared_ptr<const Calibration> calibration, GivenRotations rotations)
    : calibration_(std::move(calibration)), rotations_(std::move(rotations)) {}

CodecFits::CodecFits(const Geometry& geometry, GivenRotations rotations)
    : calibration_(only_shapes(geometry)), rotations_(std::move(rotations)) {}

FittedCodec CodecFits::fit(std::string_view name, Side side, int layer) const {
  const std::lock_guard lock(mutex_);
  const auto key = std::make_tuple(std::string(name), side, layer);
  auto found = made_.find(key);
  if (found == made_.end()) found = made_.emplace(key, make(name, side, layer)).first;
  return found->second;
}

FittedCodec CodecFits::make(std::string_view name, Side side, int layer) const {
  const LayerMoments& moments = calibration_->layers.at(size_t(layer));
  NameOptions given(name);
  const bool oscar = given.codec() == "oscar2";
  const std::optional<RotationSet>& rotations = side == Side::key ? rotations_.key : rotations_.value;
  if (!calibrated() && !(oscar && rotations))
    given.refuse(fmt::format("{} of {}s needs a calibration: run kvasir calibrate, or give --calibration FILE",
                             given.codec(), side_name(side)));
  FittedCodec fitted;
  if (oscar && rotations) {
    for (const std::string_view option : {"rotation", "values", "heads"})
      if (!given.take(option, "").empty())
        given.refuse(fmt::format("{}= has no say over rotations from a file ({}); leave one of them out", option,
                                 rotations_.source));
    const OscarOptions options = oscar_options(given, side);
    if (options.center && !calibrated() && side == Side::key)
      given.refuse(
          fmt::format("the mean of the keys isn't in {}: mean=on needs a calibration beside it, which kvasir "
                      "calibrate writes",
                      rotations_.source));
    fitted = oscar_with_rotations(moments, side, options, matrices_of(*rotations, layer));
  } else if (oscar) {
    fitted = fit_oscar(moments, side, oscar_options(given, side));
  } else {
    fitted = fit_spectral(moments, side, spectral_options(given));
  }
  fitted.codec.name = given.codec();
  constexpr std::string_view kOfLevels[] = {"scale", "quantizer"};
  const std::string rest = oscar ? given.rest({}, "rotation=, clip=, group=, heads=, values= and mean=")
                                 : given.rest(kOfLevels, "classes=, bytes=, weights=, scale= and quantizer=");
  if (!rest.empty()) apply_codec_options(rest, fitted.codec);
  fitted.codec.name = name;
  return fitted;
}

std::string CodecFits::description() const {
  std::string words;
  if (rotations_.key || rotations_.value) words = "rotations of " + rotations_.source;
  if (calibrated())
    words += fmt::format("{}{} tokens of {}{} ({}){}", words.empty() ? "" : ", ", calibration_->tokens,
                         calibration_->text, calibration_->averaged ? " at all positions" : "", calibration_->text_hash,
                         calibration_->older ? " by an earlier version: kvasir calibrate makes a better one" : "");
  return words;
}

}  // namespace kvasir
