// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/codec_fits.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

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
  EXPECT_EQ(fits().description(), "100 tokens of essays");
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
  EXPECT_GE(fits().fit("spectral3:least=2", Side::key, 0).codec.segments.size(), 2u);
  EXPECT_EQ(one.scale_fit, ScaleFit::least_squares);
  EXPECT_EQ(fits().fit("spectral3:scale=unbiased", Side::key, 0).codec.scale_fit, ScaleFit::unbiased);
}

TEST(CodecFits, RefuseWhatTheyDontKnow) {
  for (const std::string name : {"oscar2:frobnicate=1",
                                 "spectral3:frobnicate=1",
                                 "oscar2:rotation=uph",
                                 "oscar2:rotation",
                                 "oscar2:rotation=",
                                 "oscar2:",
                                 "oscar2:clip=2",
                                 "oscar2:clip=x",
                                 "oscar2:clip=nan",
                                 "oscar2:group=12",
                                 "oscar2:group=9999",
                                 "oscar2:heads=all",
                                 "oscar2:mean=yes",
                                 "oscar2:values=sums",
                                 "spectral3:classes=0",
                                 "spectral3:classes=",
                                 "spectral3:attended=2",
                                 "spectral3:bytes=0",
                                 "spectral3:classes=2:classes=x",
                                 "spectral3:rotation=h"}) {
    const std::string message = fault(name);
    EXPECT_NE(message, "") << name;
    EXPECT_NE(message.find(name.substr(0, name.find(':'))), std::string::npos) << name << ": " << message;
  }
  EXPECT_NE(fault("oscar2:rotation=uph").find("uhp, uh, u, h, none"), std::string::npos);
  EXPECT_NE(fault("spectral3:bytes=1"), "");  // holds no class
}

}  // namespace
}  // namespace kvasir
