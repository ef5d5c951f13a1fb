// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/kl_divergence.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "eval/divergence_summary.h"
#include "eval/text_chunks.h"
#include "kvasir/error.h"
#include "tests/host/tiny_gguf.h"

namespace kvasir {
namespace {

class KlDivergence : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new test::TemporaryFolder();
    test::write_tiny_gguf({}, folder_->file("tiny.gguf"));
    model_ = new std::shared_ptr<Model>(Model::load(folder_->file("tiny.gguf")));
  }
  static void TearDownTestSuite() {
    delete model_;
    delete folder_;
  }
  static std::shared_ptr<Model> model() { return *model_; }

  static std::string text(size_t bytes) {
    std::string text;
    for (size_t i = 0; text.size() < bytes; ++i) text += "line " + std::to_string(i * i % 977) + "\n";
    return text.substr(0, bytes);
  }

  static std::unique_ptr<LogitSource> source(const std::string& spec, int64_t context, int micro_batch, int sink = 4,
                                             int recent = 8) {
    CacheOptions options;
    options.sink = sink;
    options.recent = recent;
    return make_source(model(), SourceSpec::parse(spec, options), context, micro_batch, 1);
  }

  static std::vector<LogitDivergence> score(const std::string& base, const std::string& test, int64_t context,
                                            int micro_batch) {
    const auto chunks = cut_chunks(*model(), text(1000), context, 1);
    const auto a = source(base, context, micro_batch), b = source(test, context, micro_batch);
    std::vector<LogitDivergence> positions;
    score_chunk(*a, *b, chunks[0], model()->vocab_size(), micro_batch, 1, {}, positions);
    return positions;
  }

 private:
  static inline test::TemporaryFolder* folder_ = nullptr;
  static inline std::shared_ptr<Model>* model_ = nullptr;
};

TEST_F(KlDivergence, ChunksDontOverlapAndStartWithBos) {
  const std::string words = text(1000);
  const std::vector<int32_t> all = model()->tokenize(words, true, false);
  const auto chunks = cut_chunks(*model(), words, 256, 0);
  ASSERT_EQ(chunks.size(), all.size() / 256);
  for (size_t i = 0; i < chunks.size(); ++i) {
    ASSERT_EQ(chunks[i].size(), 256u);
    for (size_t t = 1; t < 256; ++t) EXPECT_EQ(chunks[i][t], all[256 * i + t]);
    EXPECT_EQ(chunks[i][0], chunks[0][0]);  // all[0] is the BOS where there is one
  }
  EXPECT_EQ(cut_chunks(*model(), words, 256, 2).size(), 2u);
  EXPECT_THROW(cut_chunks(*model(), "short", 256, 0), Error);
  EXPECT_THROW(cut_chunks(*model(), words, 2, 0), Error);
}

TEST_F(KlDivergence, ScoresTheSecondHalf) {
  EXPECT_EQ(score("f16", "f16", 256, 64).size(), 127u);  // positions 128 .. 254
  EXPECT_EQ(score("f16", "f16", 255, 64).size(), 127u);  // 127 .. 253
}

TEST_F(KlDivergence, ACacheAgainstItselfIsZero) {
  for (const char* spec : {"f16", "turbo2", "native", "native:q4_0"})
    for (const LogitDivergence& position : score(spec, spec, 192, 50)) {
      EXPECT_EQ(position.kld, 0.0) << spec;
      EXPECT_TRUE(position.same_top) << spec;
    }
}

TEST_F(KlDivergence, F16MatchesNativeAndFewerBitsCostMore) {
  const double f16 = summarize(score("native", "f16", 512, 128)).kld.mean;
  const double turbo4 = summarize(score("native", "turbo4", 512, 128)).kld.mean;
  const double turbo2 = summarize(score("native", "turbo2", 512, 128)).kld.mean;
  EXPECT_LT(f16, 1e-5);
  EXPECT_GT(turbo4, f16);
  EXPECT_GT(turbo2, turbo4);
}

TEST_F(KlDivergence, TheMicroBatchDoesNotChangeTheResult) {
  // The packed boundary is a function of position alone, so only the order of float sums differs.
  const double in_64 = summarize(score("f16", "turbo3", 384, 64)).kld.mean;
  const double in_7 = summarize(score("f16", "turbo3", 384, 7)).kld.mean;
  EXPECT_NEAR(in_64 / in_7, 1, 1e-3);
}

TEST_F(KlDivergence, BitsAreThoseOfTheWholeCache) {
  const auto test = source("turbo4", 512, 128);
  std::vector<float> logits;
  const auto chunks = cut_chunks(*model(), text(1000), 512, 1);
  for (int i = 0; i < 4; ++i) test->append(std::span(chunks[0]).subspan(size_t(i) * 128, 128), false, logits);
  EXPECT_EQ(test->bytes(), plan_size(model()->geometry(), test->cache()->options(), 512).total());
  EXPECT_DOUBLE_EQ(test->bits_per_value(), 16.0 * double(test->bytes()) / double(test->bytes_f16()));
  EXPECT_DOUBLE_EQ(source("native:q4_0", 512, 128)->bits_per_value(), 4.5);
}

TEST_F(KlDivergence, SourceNames) {
  EXPECT_TRUE(SourceSpec::parse("native", {}).native);
  EXPECT_EQ(SourceSpec::parse("native:q8_0", {}).type_v, "q8_0");
  const SourceSpec mixed = SourceSpec::parse("native:q8_0,q4_0", {});
  EXPECT_EQ(mixed.type_k, "q8_0");
  EXPECT_EQ(mixed.type_v, "q4_0");
  EXPECT_EQ(SourceSpec::parse("turbo4,turbo2", {}).cache.value, "turbo2");
  EXPECT_THROW(SourceSpec::parse("native:", {}), Error);
  EXPECT_THROW(SourceSpec::parse("nativ", {}), Error);
  EXPECT_THROW(source("native:q9", 64, 64), Error);
}

TEST_F(KlDivergence, LogitsStayWithinTheirShareOfMemory) {
  EXPECT_EQ(lockstep_micro_batch(49152, 512), 512);
  EXPECT_EQ(lockstep_micro_batch(262144, 512), 256);
  EXPECT_EQ(lockstep_micro_batch(1 << 30, 512), 1);
}

}  // namespace
}  // namespace kvasir
