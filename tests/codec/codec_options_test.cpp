// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "codec/page_layout.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

Codec key(const std::string& name) {
  return make_codec(name, Side::key, 64);
}

TEST(CodecOptions, ChangeWhatTheyName) {
  EXPECT_EQ(key("turbo3:scale=norm").scale_fit, ScaleFit::norm);
  EXPECT_EQ(key("turbo3:scale=matched").scale_fit, ScaleFit::matched);
  EXPECT_EQ(key("turbo3:rotation=haar").map, MapKind::haar);
  EXPECT_EQ(key("turbo3:seed=7").seed, 7u);
  EXPECT_EQ(key("turbo3:quantizer=trellis").segments[0].quantizer, QuantizerKind::trellis);
  EXPECT_EQ(key("turbo2.5:quantizer=trellis").segments[1].quantizer, QuantizerKind::trellis);
  EXPECT_EQ(key("turboprod3:quantizer=trellis").segments[0].quantizer, QuantizerKind::trellis);
  EXPECT_EQ(key("turbo3:codebook=sphere").segments[0].quantizer, QuantizerKind::lloyd_max_sphere);
  EXPECT_EQ(key("turboprod3:projection=gaussian").projection, ProjectionKind::gaussian);
  EXPECT_FALSE(key("turbo3:mean=off").center);
  EXPECT_TRUE(key("turbo3:split=on").sort_channels);
  EXPECT_EQ(key("turbo3:split=on").segments.size(), 2u);
  EXPECT_TRUE(key("kivi2:mean=on").center);
}

TEST(CodecOptions, NameSaysWhatChangedInOneOrder) {
  EXPECT_EQ(key("turbo3:seed=7:rotation=haar:scale=norm").name, "turbo3:scale=norm:rotation=haar:seed=7");
  EXPECT_EQ(key("turbo3:mean=on:scale=unbiased").name, "turbo3") << "both are the default for keys";
  EXPECT_EQ(key("turbo3:quantizer=lloyd-max").name, "turbo3");
  EXPECT_EQ(key("turbo3:mean=off:quantizer=trellis").name, "turbo3:quantizer=trellis:mean=off");
  const Codec codec = key("turbo3.5:seed=7:mean=off");
  EXPECT_EQ(key(codec.name), codec);
}

TEST(CodecOptions, SeedsAndRotationsReachThePage) {
  const SideLayout plain(key("turbo3")), seeded(key("turbo3:seed=7")), haar(key("turbo3:rotation=haar"));
  EXPECT_NE(plain.runs[0].rotation, seeded.runs[0].rotation);
  EXPECT_NE(plain.runs[0].rotation, haar.runs[0].rotation);
  const SideLayout product(key("turboprod3:rotation=haar"));
  ASSERT_NE(product.projection, nullptr);
  EXPECT_NE(product.projection, product.runs[0].rotation) << "a projection that repeats the rotation is none";
}

TEST(CodecOptions, RefusalsNameTheWayOut) {
  const auto message = [](const std::string& name) -> std::string {
    try {
      key(name);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << name;
      return error.what();
    }
    return "accepted";
  };
  const auto expect = [&](const std::string& name, const std::string& part) {
    EXPECT_NE(message(name).find(part), std::string::npos) << name << ": " << message(name);
  };
  expect("turbo3:scale=best", "norm, matched, unbiased, least-squares");
  expect("turbo3:spin=1", "there are scale=");
  expect("turbo3:scale", "there are scale=");
  expect("turbo3:", "behind the last colon");
  expect("turbo3:mean=off:", "behind the last colon");
  expect("turbo3:scale=", "needs a value");
  expect("turbo3:seed=0", "1 or more");
  expect("turbo3:seed=-1", "1 or more");
  expect("turbo3:seed=12x", "1 or more");
  expect("turbo3:seed=99999999999999999999999", "1 or more");
  expect("turbo3:seed=1:seed=2", "twice");
  expect("turbo3:projection=gaussian", "turboprod");
  expect("turbo2.5:split=on", "turbo1 to turbo5");
  expect("kivi2:rotation=haar", "rotates nothing");
  expect("kivi2:seed=3", "nothing random");
  expect("q8:scale=norm", "turbo codecs");
  expect("f16:mean=on", "can't remove a mean");
  expect("turboprod1:mean=on", "can't remove a mean");
  expect("turboprod1:scale=norm", "turbo codecs");
  expect("turbo5:quantizer=trellis", "up to 4 bits");
  expect("turbo4.5:quantizer=trellis", "up to 4 bits");
  expect("turbo3:quantizer=best", "lloyd-max, trellis");
  expect("turbo3:codebook=sphere:quantizer=trellis", "leave out codebook=");
  expect("q8:quantizer=trellis", "turbo codecs");
}

TEST(CodecOptions, UnprotectedSaysSoAndKeepsWhatIsAskedFor) {
  EXPECT_EQ(make_unprotected_codec("turbo3:seed=7", Side::key, 64).name, "turbo3:seed=7:mean=off");
  EXPECT_EQ(make_unprotected_codec("turbo3", Side::key, 64), key("turbo3:mean=off"));
  EXPECT_TRUE(make_unprotected_codec("turbo3:mean=on", Side::key, 64).center);
  EXPECT_EQ(make_unprotected_codec("f16", Side::key, 64), key("f16"));
}

TEST(CodecOptions, DenseMatricesHaveALargestSize) {
  EXPECT_NO_THROW(make_codec("turbo3", Side::key, 4096));
  EXPECT_THROW(make_codec("turbo3:rotation=haar", Side::key, 4096), Error);
  EXPECT_THROW(make_codec("turboprod3", Side::key, 4096), Error);
}

}  // namespace
}  // namespace kvasir
