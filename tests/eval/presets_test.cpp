// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/presets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "eval/suite_methods.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

CacheOptions windows(int sink, int recent) {
  CacheOptions options;
  options.sink = sink;
  options.recent = recent;
  return options;
}

TEST(Presets, EachParsesOrSaysWhatItLacks) {
  std::set<std::string_view> names;
  for (const Preset& preset : presets()) {
    EXPECT_TRUE(names.insert(preset.name).second) << preset.name;
    EXPECT_FALSE(preset.source.empty() || preset.settings.empty() || preset.differs.empty()) << preset.name;
    const std::string reason = why_unavailable(preset);
    if (reason.empty()) {
      const SourceSpec spec = method_spec(std::string(preset.name), windows(1, 2));
      EXPECT_EQ(spec.native, preset.kv.starts_with("native")) << preset.name;
      if (spec.native) continue;
      EXPECT_EQ(spec.cache.sink, preset.sink) << "a preset brings its own windows";
      EXPECT_EQ(spec.cache.recent, preset.recent);
      EXPECT_EQ(spec.cache.protect, preset.protect);
    } else {
      EXPECT_NE(reason.find("not in this version"), std::string::npos);
      try {
        method_spec(std::string(preset.name), windows(1, 2));
        FAIL() << preset.name;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::unsupported);
      }
    }
  }
}

TEST(Presets, SettingsOfThePapers) {
  const SourceSpec kivi = method_spec("kivi-paper", windows(64, 256));
  EXPECT_EQ(kivi.cache.key, "kivi2");
  EXPECT_EQ(kivi.cache.sink, 0);
  EXPECT_EQ(kivi.cache.recent, 128);
  EXPECT_FALSE(kivi.cache.protect);
  EXPECT_EQ(method_spec("llama-q4_0", {}).type_v, "q4_0");
  EXPECT_EQ(method_spec("vllm-4bit", {}).cache.overrides.size(), 2u);
  EXPECT_EQ(find_preset("nobody-paper"), nullptr);
}

TEST(SuiteMethods, EqualWindowsExceptForPresets) {
  const auto methods = suite_methods("turbo4,q8/turbo4,native:q8_0/q4_0,kivi-paper", windows(32, 96));
  ASSERT_EQ(methods.size(), 5u);
  EXPECT_EQ(methods[0].name, "f16") << "every table needs its floor";
  for (size_t i : {0, 1, 2}) {
    EXPECT_EQ(methods[i].spec.cache.sink, 32);
    EXPECT_EQ(methods[i].spec.cache.recent, 96);
  }
  EXPECT_EQ(methods[2].spec.cache.key, "q8");
  EXPECT_EQ(methods[2].spec.cache.value, "turbo4");
  EXPECT_EQ(methods[3].spec.type_v, "q4_0");
  EXPECT_NE(methods[4].preset, nullptr);
  EXPECT_EQ(suite_methods("turbo4,f16", {}).size(), 2u);
  EXPECT_THROW(suite_methods("turbo4,turbo4", {}), Error);
  EXPECT_THROW(suite_methods("turbo4,,q8", {}), Error);
  EXPECT_THROW(suite_methods("auto,turbo4.5/turbo4", {}), Error) << "one cache under two names";
  EXPECT_THROW(suite_methods("turbo3:seed=1:mean=off,turbo3:mean=off:seed=1", {}), Error);
  EXPECT_THROW(suite_methods("tubro4", {}), Error);
}

TEST(SuiteMethods, LayersBehindTheCodec) {
  const SourceSpec spec = method_spec("turbo3/turbo2@0-1:q8@-2--1:q8/turbo4", {});
  EXPECT_EQ(spec.cache.key, "turbo3");
  EXPECT_EQ(spec.cache.value, "turbo2");
  ASSERT_EQ(spec.cache.overrides.size(), 2u);
  EXPECT_EQ(spec.cache.overrides[0].last, 1);
  EXPECT_EQ(spec.cache.overrides[1].first, -2);
  EXPECT_EQ(spec.cache.overrides[1].value, "turbo4");
  EXPECT_THROW(method_spec("turbo3@", {}), Error);
  EXPECT_THROW(method_spec("turbo3@0-1", {}), Error);
  EXPECT_THROW(method_spec("native:q8_0@0:q8", {}), Error);
  EXPECT_THROW(method_spec("kivi-paper@0:q8", {}), Error);
}

TEST(Presets, AMissingCodecIsNamed) {
  Preset preset = presets().front();
  preset.kv = "turbo3,not-a-codec";
  EXPECT_NE(why_unavailable(preset).find("not-a-codec"), std::string::npos);
  preset.kv = "oscar2";
  EXPECT_EQ(why_unavailable(preset), "");
}

TEST(SuiteMethods, WhatThisVersionLacksStaysInTheList) {
  const auto missing = std::ranges::find_if(presets(), [](const Preset& p) { return !why_unavailable(p).empty(); });
  if (missing == presets().end()) GTEST_SKIP() << "every preset can run";
  const auto methods = suite_methods(std::string(missing->name), {});
  EXPECT_FALSE(methods.back().unavailable.empty());
}

}  // namespace
}  // namespace kvasir
