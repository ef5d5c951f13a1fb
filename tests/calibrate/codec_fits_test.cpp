// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/codec_fits.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "calibrate/oscar_fit.h"
#include "tests/calibrate/rotation_samples.h"
#include "tests/calibrate/sample_layer.h"

namespace kvasir {
namespace {

using test::fault_of;

const LayerGeometry kShape{
    .heads = 4, .kv_heads = 2, .key_dim = 64, .value_dim = 32, .scale = 0.125f, .sink_logits = {}};

Calibration sample_calibration() {
  Calibration calibration;
  calibration.text = "essays";
  calibration.text_hash = "feedface";
  calibration.tokens = 100;
  for (const uint64_t seed : {1, 2}) calibration.layers.push_back(moments_of(test::sample_layer(kShape, 100, seed)));
  return calibration;
}

const CodecFits& fits() {
  static const CodecFits one(sample_calibration());
  return one;
}

std::string fault(const std::string& name, Side side = Side::key) {
  return fault_of([&] { fits().fit(name, side, 0); });
}

TEST(CodecFits, MakeEveryNameTheyList) {
  EXPECT_EQ(fits().layers(), 2);
  EXPECT_EQ(fits().description(), "100 tokens of essays (feedface)");
  for (const std::string& name : fitted_codec_names())
    for (const Side side : {Side::key, Side::value})
      for (int layer = 0; layer < 2; ++layer) {
        const FittedCodec fitted = fits().fit(name, side, layer);
        EXPECT_EQ(fitted.codec.name, name);
        EXPECT_EQ(fitted.codec.side, side);
        EXPECT_EQ(fitted.codec.dim, side == Side::key ? 64 : 32);
        EXPECT_EQ(fitted.codec.map, MapKind::fitted);
        ASSERT_EQ(fitted.maps->size(), 2u);
        EXPECT_EQ(fitted.maps->front().mapped_dim, fitted.codec.mapped_dim());
        EXPECT_TRUE(is_fitted_codec(name));
      }
}

TEST(CodecFits, AreMadeOnce) {
  EXPECT_EQ(fits().fit("oscar2", Side::key, 0).maps, fits().fit("oscar2", Side::key, 0).maps);
  EXPECT_NE(fits().fit("oscar2", Side::key, 0).maps, fits().fit("oscar2", Side::key, 1).maps);
}

TEST(CodecFits, OscarOptions) {
  const auto key = [](const std::string& name) { return fits().fit(name, Side::key, 0); };
  const FittedMap shared = key("oscar2").maps->at(0);
  EXPECT_EQ(shared.rows, key("oscar2").maps->at(1).rows);
  EXPECT_NE(key("oscar2:heads=own").maps->at(0).rows, key("oscar2:heads=own").maps->at(1).rows);
  EXPECT_EQ(shared.clip, 0.96f);
  EXPECT_EQ(fits().fit("oscar2", Side::value, 0).maps->at(0).clip, 0.92f);
  EXPECT_EQ(key("oscar2:clip=off").maps->at(0).clip, 0);
  EXPECT_EQ(key("oscar2:clip=0.9").maps->at(0).clip, 0.9f);
  EXPECT_TRUE(shared.mean.empty());
  EXPECT_EQ(key("oscar2:mean=on").maps->at(0).mean.size(), 64u);
  EXPECT_TRUE(fits().fit("oscar2:mean=on", Side::value, 0).maps->at(0).mean.empty());
  EXPECT_EQ(key("oscar2:group=32").codec.segments.size(), 2u);
  EXPECT_NE(key("oscar2:rotation=h").maps->at(0).rows, shared.rows);
  EXPECT_NE(fits().fit("oscar2:values=scores", Side::value, 0).maps->at(0).rows,
            fits().fit("oscar2", Side::value, 0).maps->at(0).rows);
  EXPECT_EQ(key("oscar2:mean=on:group=32").codec.name, "oscar2:mean=on:group=32");
}

TEST(CodecFits, SpectralOptions) {
  const Codec one = fits().fit("spectral3:classes=1", Side::key, 0).codec;
  EXPECT_EQ(one.segments.size(), 1u);
  EXPECT_EQ(fits().fit("spectral3:bytes=20", Side::key, 0).codec.scale_format, ScaleFormat::log8);
  EXPECT_LE(bits_per_value(fits().fit("spectral3:bytes=20", Side::key, 0).codec), 20 * 8 / 64.0);
  EXPECT_EQ(one.scale_fit, ScaleFit::unbiased);
  EXPECT_EQ(fits().fit("spectral3", Side::value, 0).codec.scale_fit, ScaleFit::least_squares);
  EXPECT_EQ(fits().fit("spectral3:scale=matched", Side::key, 0).codec.scale_fit, ScaleFit::matched);
  const auto rows = [](const std::string& name, Side side) { return fits().fit(name, side, 0).maps->at(0).rows; };
  for (const Side side : {Side::key, Side::value})
    EXPECT_NE(rows("spectral3:weights=none", side), rows("spectral3", side));
}

TEST(CodecFits, RefuseWhatTheyDontKnow) {
  for (const std::string name : {"oscar2:frobnicate=1",    "spectral3:frobnicate=1", "oscar2:rotation=uph",
                                 "oscar2:rotation",        "oscar2:rotation=",       "oscar2:",
                                 "oscar2:clip=2",          "oscar2:clip=x",          "oscar2:clip=nan",
                                 "oscar2:group=12",        "oscar2:group=9999",      "oscar2:heads=all",
                                 "oscar2:mean=yes",        "oscar2:values=sums",     "spectral3:classes=0",
                                 "spectral3:classes=",     "spectral3:weights=2",    "spectral3:weights=",
                                 "spectral3:weights=keys", "spectral3:bytes=0",      "spectral3:classes=2:classes=x",
                                 "spectral3:rotation=h"}) {
    const std::string message = fault(name);
    EXPECT_NE(message, "") << name;
    EXPECT_NE(message.find(name.substr(0, name.find(':'))), std::string::npos) << name << ": " << message;
  }
  EXPECT_NE(fault("oscar2:rotation=uph").find("uhp, uh, u, h, none"), std::string::npos);
  EXPECT_NE(fault("spectral3:bytes=1"), "");  // holds no class
}

Geometry sample_geometry() {
  Geometry geometry;
  geometry.layers.assign(2, kShape);
  return geometry;
}

GivenRotations sample_given(bool keys, bool values, int heads = 0) {
  GivenRotations given;
  if (keys) given.key = test::sample_rotations({.dim = 64, .heads = heads});
  if (values) given.value = test::sample_rotations({.side = Side::value, .dim = 32, .heads = heads});
  given.source = "`r.gguf`";
  return given;
}

// What a calibration writes into a file and reads back is what it would have used itself.
TEST(CodecFits, TakeRotationsFromFiles) {
  for (const bool per_head : {false, true}) {
    GivenRotations given;
    given.key = oscar_rotation_set(sample_calibration().layers, Side::key, per_head);
    given.value = oscar_rotation_set(sample_calibration().layers, Side::value, per_head);
    EXPECT_NO_THROW(validate(*given.key, "keys"));
    EXPECT_NO_THROW(validate(*given.value, "values"));
    EXPECT_EQ(given.key->objective, "qqt_r_h_pbr");
    EXPECT_EQ(given.value->objective, "sst_r_h_pbr");
    const CodecFits bare(sample_geometry(), given);
    const std::string own = per_head ? "oscar2:heads=own" : "oscar2";
    for (const Side side : {Side::key, Side::value})
      for (const int layer : {0, 1})
        for (const size_t head : {0, 1}) {
          const FittedMap got = bare.fit("oscar2", side, layer).maps->at(head);
          const FittedMap expected = fits().fit(own, side, layer).maps->at(head);
          EXPECT_EQ(got.rows, expected.rows);
          EXPECT_EQ(got.clip, expected.clip);
        }
  }
}

// Eigenvalues stand in rising order and belong to U of R = U H P: those of the mean of q q^T itself, without the scale
// of logits.
TEST(CodecFits, ExportEigenvalues) {
  const Calibration calibration = sample_calibration();
  const RotationSet set = oscar_rotation_set(calibration.layers, Side::key, true);
  for (size_t layer = 0; layer < 2; ++layer)
    for (size_t head = 0; head < 2; ++head) {
      const float* spectrum = set.layers[layer].eigenvalues.data() + head * 64;
      const HeadMoments& moments = calibration.layers[layer].heads[head];
      double sum = 0, trace = 0;
      for (int c = 0; c < 64; ++c) {
        sum += double(spectrum[c]);
        trace += moments.query[size_t(c * 65)] / moments.queries;
        if (c > 0) {
          EXPECT_LE(spectrum[c - 1], spectrum[c]);
        }
      }
      EXPECT_NEAR(sum, trace, 1e-5 * trace);
    }
}

TEST(CodecFits, RotationsWithoutACalibration) {
  const CodecFits bare(sample_geometry(), sample_given(true, false, 2));
  EXPECT_EQ(bare.layers(), 2);
  EXPECT_EQ(bare.description(), "rotations of `r.gguf`");
  const FittedCodec fitted = bare.fit("oscar2:group=32:clip=off", Side::key, 1);
  EXPECT_EQ(fitted.codec.segments.size(), 2u);
  EXPECT_NE(fitted.maps->at(0).rows, fitted.maps->at(1).rows);
  const auto fault = [&](const std::string& name, Side side) { return fault_of([&] { bare.fit(name, side, 0); }); };
  for (const std::string name : {"spectral3", "oscar2"})
    EXPECT_NE(fault(name, Side::value).find("kvasir calibrate"), std::string::npos) << fault(name, Side::value);
  EXPECT_NE(fault("spectral3", Side::key).find("kvasir calibrate"), std::string::npos);
  EXPECT_NE(fault("oscar2:mean=on", Side::key).find("the mean of the keys isn't in `r.gguf`"), std::string::npos);
  for (const std::string option : {"rotation=h", "values=scores", "heads=own"})
    EXPECT_NE(fault("oscar2:" + option, Side::key).find("no say over rotations from a file"), std::string::npos);
}

TEST(CodecFits, RotationsBesideACalibration) {
  const CodecFits both(fits().calibration(), sample_given(true, false));
  EXPECT_EQ(both.description(), "rotations of `r.gguf`, 100 tokens of essays (feedface)");
  const FittedMap map = both.fit("oscar2:mean=on", Side::key, 0).maps->at(1);
  EXPECT_NE(map.rows, fits().fit("oscar2", Side::key, 0).maps->at(1).rows);
  EXPECT_EQ(map.mean, fits().fit("oscar2:mean=on", Side::key, 0).maps->at(1).mean);
  // The side without a file is fitted, and spectral codecs know nothing of files.
  EXPECT_EQ(both.fit("oscar2", Side::value, 0).maps->at(0).rows, fits().fit("oscar2", Side::value, 0).maps->at(0).rows);
  EXPECT_EQ(both.fit("spectral3", Side::key, 0).maps->at(0).rows,
            fits().fit("spectral3", Side::key, 0).maps->at(0).rows);
}

}  // namespace
}  // namespace kvasir
