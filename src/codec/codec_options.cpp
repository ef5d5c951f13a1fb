// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "codec/codec_options.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "codec/loud_channels.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

constexpr int kTrellisMostBits = 4;

bool gaussian_levels(const Segment& segment) {
  return segment.quantizer == QuantizerKind::lloyd_max || segment.quantizer == QuantizerKind::lloyd_max_sphere ||
         segment.quantizer == QuantizerKind::trellis;
}
bool has_levels(const Codec& codec) {
  return std::ranges::any_of(codec.segments, gaussian_levels);
}
bool has_signs(const Codec& codec) {
  return codec.segments.back().quantizer == QuantizerKind::residual_sign;
}

[[noreturn]] void refuse(const Codec& codec, const std::string& message) {
  throw Error(ErrorCode::invalid_argument, "codec " + codec.name + ": " + message);
}

template <class T>
T choose(const Codec& codec, std::string_view option, std::string_view word,
         const std::vector<std::pair<std::string_view, T>>& choices) {
  return choose_word(codec.name, option, word, choices);
}

void set_scale(Codec& codec, std::string_view word) {
  if (!has_levels(codec)) refuse(codec, "scale= belongs to the levels of turbo codecs; leave it out");
  codec.scale_fit = choose<ScaleFit>(codec, "scale", word,
                                     {{"norm", ScaleFit::norm},
                                      {"matched", ScaleFit::matched},
                                      {"unbiased", ScaleFit::unbiased},
                                      {"least-squares", ScaleFit::least_squares}});
}

void set_rotation(Codec& codec, std::string_view word) {
  if (codec.map == MapKind::identity) refuse(codec, "it rotates nothing; leave out rotation=");
  codec.map =
      choose<MapKind>(codec, "rotation", word, {{"signed-fwht", MapKind::signed_fwht}, {"haar", MapKind::haar}});
}

void set_seed(Codec& codec, std::string_view word) {
  if (codec.map == MapKind::identity) refuse(codec, "it has nothing random; leave out seed=");
  uint64_t seed = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), seed);
  if (error != std::errc() || end != word.data() + word.size() || seed == 0)
    refuse(codec, "seed takes a whole number of 1 or more; got '" + std::string(word) + "'");
  codec.seed = seed;
}

void set_quantizer(Codec& codec, std::string_view word) {
  if (!has_levels(codec)) refuse(codec, "quantizer= belongs to the levels of turbo codecs; leave it out");
  const QuantizerKind kind = choose<QuantizerKind>(
      codec, "quantizer", word, {{"lloyd-max", QuantizerKind::lloyd_max}, {"trellis", QuantizerKind::trellis}});
  for (Segment& segment : codec.segments) {
    if (!gaussian_levels(segment)) continue;
    if (kind == QuantizerKind::trellis && segment.bits > kTrellisMostBits)
      refuse(codec, "a trellis has up to " + std::to_string(kTrellisMostBits) + " bits; leave out quantizer=");
    segment.quantizer = kind;
  }
}

void set_codebook(Codec& codec, std::string_view word) {
  if (!has_levels(codec)) refuse(codec, "codebook= belongs to the levels of turbo codecs; leave it out");
  const QuantizerKind kind = choose<QuantizerKind>(
      codec, "codebook", word, {{"normal", QuantizerKind::lloyd_max}, {"sphere", QuantizerKind::lloyd_max_sphere}});
  for (Segment& segment : codec.segments) {
    if (segment.quantizer == QuantizerKind::trellis) refuse(codec, "a trellis has its own levels; leave out codebook=");
    if (gaussian_levels(segment)) segment.quantizer = kind;
  }
}

void set_projection(Codec& codec, std::string_view word) {
  if (!has_signs(codec)) refuse(codec, "projection= belongs to the signs of turboprod codecs; leave it out");
  codec.projection = choose<ProjectionKind>(
      codec, "projection", word, {{"orthogonal", ProjectionKind::orthogonal}, {"gaussian", ProjectionKind::gaussian}});
}

void set_split(Codec& codec, std::string_view word) {
  const bool on = choose<bool>(codec, "split", word, {{"on", true}, {"off", false}});
  if (codec.segments.size() != 1 || !has_levels(codec)) refuse(codec, "split= belongs to turbo1 to turbo5");
  if (on) split_loud_channels(codec, 0);
}

void set_mean(Codec& codec, std::string_view word) {
  const bool on = choose<bool>(codec, "mean", word, {{"on", true}, {"off", false}});
  if (on && (codec.raw() || (has_signs(codec) && !has_levels(codec)))) refuse(codec, "it can't remove a mean");
  codec.center = on;
}

using Set = void (*)(Codec&, std::string_view);
constexpr std::pair<std::string_view, Set> kOptions[] = {
    {"scale", set_scale},       {"rotation", set_rotation},     {"seed", set_seed},   {"quantizer", set_quantizer},
    {"codebook", set_codebook}, {"projection", set_projection}, {"split", set_split}, {"mean", set_mean},
};

// Applies one option; false if it changed nothing.
bool apply(Codec& codec, Set set, std::string_view word) {
  const Codec before = codec;
  set(codec, word);
  return codec != before;
}

}  // namespace

void apply_codec_options(std::string_view text, Codec& codec) {
  std::string given[std::size(kOptions)];
  if (text.empty() || text.ends_with(':')) refuse(codec, "an option is missing behind the last colon");
  while (!text.empty()) {
    const std::string_view option = text.substr(0, text.find(':'));
    text.remove_prefix(std::min(option.size() + 1, text.size()));
    const size_t equals = std::min(option.find('='), option.size());
    const auto* const known =
        std::ranges::find(kOptions, option.substr(0, equals), &std::pair<std::string_view, Set>::first);
    if (known == std::end(kOptions) || equals == option.size())
      refuse(codec, "no option '" + std::string(option) +
                        "'; there are scale=, rotation=, seed=, quantizer=, codebook=, projection=, split= and mean=");
    std::string& slot = given[known - std::begin(kOptions)];
    if (!slot.empty()) refuse(codec, std::string(known->first) + "= is given twice");
    slot = option.substr(equals + 1);
    if (slot.empty()) refuse(codec, std::string(known->first) + "= needs a value");
  }
  std::string name = codec.name;
  for (size_t i = 0; i < std::size(kOptions); ++i)
    if (!given[i].empty() && apply(codec, kOptions[i].second, given[i]))
      name += ":" + std::string(kOptions[i].first) + "=" + given[i];
  codec.name = name;
}

}  // namespace kvasir
