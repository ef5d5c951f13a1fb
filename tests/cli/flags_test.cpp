// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <limits>
#include <string>
#include <vector>

#include "cli/cache_flags.h"
#include "cli/generation.h"
#include "cli/interrupt.h"
#include "cli/sampling.h"
#include "cli/terminal.h"
#include "kvasir/error.h"

namespace kvasir::cli {
namespace {

TEST(ParseBytes, Units) {
  EXPECT_EQ(parse_bytes("300", "-x"), 300u);
  EXPECT_EQ(parse_bytes("64K", "-x"), 65536u);
  EXPECT_EQ(parse_bytes("1.5m", "-x"), 1572864u);
  EXPECT_EQ(parse_bytes("2GiB", "-x"), size_t(2) << 30);
  EXPECT_EQ(parse_bytes("1TB", "-x"), size_t(1) << 40);
  for (const char* bad : {"", "K", "-1", "0", "1Q", "1KK", "nan", "inf", "1e30", "9999999999T", "0x10", "5 M"})
    EXPECT_THROW(parse_bytes(bad, "-x"), Error) << bad;
}

TEST(CacheFlags, OneSideOfKv) {
  CacheFlags flags;
  EXPECT_EQ(flags.kv_text(), "auto");
  flags.type_k = "q8";
  EXPECT_EQ(flags.kv_text(), "q8,auto");
  flags.kv = "turbo4,turbo2";
  EXPECT_EQ(flags.kv_text(), "q8,turbo2");
  flags.type_v = "f16";
  EXPECT_EQ(flags.kv_text(), "q8,f16");
}

TEST(CacheFlags, Options) {
  CacheFlags flags;
  flags.kv = "q8,turbo3";
  flags.budget = "1M";
  flags.no_protect = true;
  flags.sink = 0;
  const CacheOptions options = cache_options(flags);
  EXPECT_EQ(options.key, "q8");
  EXPECT_EQ(options.value, "turbo3");
  EXPECT_EQ(options.budget, size_t(1) << 20);
  EXPECT_FALSE(options.protect);
  EXPECT_EQ(options.sink, 0);
}

TEST(FormatBytes, ThreeDigits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1000), "1.00 kB");
  EXPECT_EQ(format_bytes(12345678), "12.3 MB");
  EXPECT_EQ(format_bytes(189000000), "189 MB");
  EXPECT_EQ(format_bytes(999999), "1.00 MB");
}

TEST(Utf8Stream, EveryCutShowsWholeCharacters) {
  const std::string text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\x8a z";
  for (size_t cut = 0; cut <= text.size(); ++cut)
    for (size_t next = cut; next <= text.size(); ++next) {
      Utf8Stream stream;
      std::string shown;
      for (const std::string& part : {text.substr(0, cut), text.substr(cut, next - cut), text.substr(next)}) {
        const std::string ready = stream.push(part);
        shown += ready;
        // Nothing that is shown ends inside a character.
        EXPECT_TRUE(shown.size() == text.size() || (static_cast<unsigned char>(text[shown.size()]) & 0xc0) != 0x80);
      }
      EXPECT_EQ(shown, text);
      EXPECT_EQ(stream.finish(), "");
    }
}

TEST(Utf8Stream, BrokenBytesComeThrough) {
  for (const std::string& text : {std::string("\xff\xfe"), std::string("\x80\x80\x80\x80\x80"),
                                  std::string("a\xf0\x9f\x8c"), std::string("\xc0z")}) {
    Utf8Stream stream;
    std::string shown;
    for (const char byte : text) shown += stream.push({&byte, 1});
    EXPECT_EQ(shown + stream.finish(), text);
  }
}

TEST(Sampler, Greedy) {
  SamplingFlags flags;
  flags.temperature = 0;
  Sampler sampler(flags);
  const std::vector<float> logits = {0, 3, 3, -1};
  EXPECT_EQ(sampler.sample(logits), 1);  // the first of equals
}

TEST(Sampler, FollowsTheDistribution) {
  SamplingFlags flags;
  flags.temperature = 1;
  flags.top_k = 0;
  flags.top_p = 1;
  flags.min_p = 0;
  flags.seed = 3;
  Sampler sampler(flags);
  const std::vector<float> logits = {0, std::log(3.0f)};
  int ones = 0;
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) ones += sampler.sample(logits);
  EXPECT_NEAR(ones / double(kDraws), 0.75, 4 * std::sqrt(0.75 * 0.25 / kDraws));
}

TEST(Sampler, TopKLeavesTheRestOut) {
  SamplingFlags flags;
  flags.temperature = 100;
  flags.top_k = 2;
  flags.seed = 3;
  Sampler sampler(flags);
  const std::vector<float> logits = {0, 3, 2, 1};
  for (int i = 0; i < 200; ++i) {
    const int32_t token = sampler.sample(logits);
    EXPECT_TRUE(token == 1 || token == 2) << token;
  }
}

TEST(Sampler, NaNIsAnError) {
  for (const double temperature : {0.0, 1.0}) {
    SamplingFlags flags;
    flags.temperature = temperature;
    Sampler sampler(flags);
    const std::vector<float> logits = {0, std::numeric_limits<float>::quiet_NaN(), 1};
    EXPECT_THROW(sampler.sample(logits), Error);
  }
}

TEST(InterruptGuard, TheFirstSignalOnlySetsAFlag) {
  {
    const InterruptGuard guard;
    EXPECT_FALSE(guard.interrupted());
    std::raise(SIGINT);
    EXPECT_TRUE(guard.interrupted());
  }
  const InterruptGuard next;
  EXPECT_FALSE(next.interrupted());
}

}  // namespace
}  // namespace kvasir::cli
