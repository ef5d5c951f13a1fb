// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// A calibration through a model: the same sums however it is cut, stopped or threaded, and codecs that come out of it.
#include "host/calibration_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "host/fitted_codecs.h"
#include "host/model_fingerprint.h"
#include "host/self_text.h"
#include "kvasir/error.h"
#include "tests/base/file_bytes.h"
#include "tests/host/logits.h"
#include "tests/host/tiny_gguf.h"

namespace kvasir {
namespace {

using test::TemporaryFolder;
using test::TinyModel;

const std::string& words() {
  static const std::string text = [] {
    std::string all;
    for (int i = 0; i < 400; ++i) all += "word " + std::to_string(i * i % 97) + ", ";
    return all;
  }();
  return text;
}

class CalibrationRun : public testing::Test {
 protected:
  std::shared_ptr<Model> model(const TinyModel& tiny = {}) {
    const std::string path = folder_.file("model.gguf");
    test::write_tiny_gguf(tiny, path);
    return Model::load(path);
  }
  static CalibrationOptions options() {
    CalibrationOptions options;
    options.tokens = 768;
    options.window = 256;
    options.micro_batch = 64;
    options.text_name = "words";
    return options;
  }
  TemporaryFolder folder_;
};

TEST_F(CalibrationRun, CountsWhatIsOutsideTheWindows) {
  const Calibration calibration = run_calibration(model(), words(), options());
  EXPECT_EQ(calibration.tokens, 768);
  ASSERT_EQ(calibration.layers.size(), 2u);
  for (const LayerMoments& layer : calibration.layers)
    for (const HeadMoments& head : layer.heads) {
      EXPECT_EQ(head.tokens, 3 * (256 - 16));
      EXPECT_EQ(head.queries, 2 * 3 * (256 - 16));
      EXPECT_GT(head.attention, 0);
      EXPECT_LT(head.attention, head.queries);  // what the windows don't take
    }
}

TEST_F(CalibrationRun, ThreadsChangeNothing) {
  const auto tiny = model();
  CalibrationOptions one = options(), two = options();
  one.threads = 1;
  two.threads = 2;
  EXPECT_EQ(run_calibration(tiny, words(), one).layers, run_calibration(tiny, words(), two).layers);
}

TEST_F(CalibrationRun, AStoppedRunGoesOn) {
  const auto tiny = model();
  const Calibration whole = run_calibration(tiny, words(), options());
  CalibrationOptions stopped = options();
  stopped.checkpoint = folder_.file("partial");
  stopped.progress = [](int64_t done, int64_t) {
    if (done == 576) throw Error(ErrorCode::internal, "stopped");
  };
  EXPECT_THROW(run_calibration(tiny, words(), stopped), Error);
  EXPECT_EQ(load_calibration(stopped.checkpoint).tokens, 512);
  EXPECT_THROW(calibration_fits(stopped.checkpoint, tiny->fingerprint()), Error) << "a run that isn't over";
  const std::string left = test::read_bytes(stopped.checkpoint);
  int64_t first = 0;
  stopped.progress = [&](int64_t done, int64_t) { first = first == 0 ? done : first; };
  EXPECT_EQ(run_calibration(tiny, words(), stopped), whole);
  EXPECT_EQ(first, 512 + 64);
  // What an earlier version left has other sums, and another text too: both start anew.
  std::string older = left;
  const std::string format = "kvasir calibration 5";
  ASSERT_NE(older.find(format), std::string::npos);
  older[older.find(format) + format.size() - 1] = '4';
  test::write_bytes(stopped.checkpoint, older);
  first = 0;
  EXPECT_EQ(run_calibration(tiny, words(), stopped), whole);
  EXPECT_EQ(first, 64);
  EXPECT_EQ(run_calibration(tiny, words() + "more", stopped).tokens, 768);
  std::ofstream(stopped.checkpoint) << "no checkpoint";
  try {
    run_calibration(tiny, words(), stopped);
    FAIL() << "a broken checkpoint was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("remove `" + stopped.checkpoint), std::string::npos) << error.what();
  }
}

TEST_F(CalibrationRun, RefusesWhatItCantRead) {
  const auto tiny = model();
  CalibrationOptions bad = options();
  EXPECT_THROW(run_calibration(tiny, "short", bad), Error);
  bad.recent = 250;
  EXPECT_THROW(run_calibration(tiny, words(), bad), Error);
  bad = options();
  bad.tokens = 100;
  EXPECT_THROW(run_calibration(tiny, words(), bad), Error);
}

TEST_F(CalibrationRun, FitsServeTheModelTheyWereMadeWith) {
  const auto tiny = model();
  const std::string file = folder_.file("c.safetensors");
  save_calibration(run_calibration(tiny, words(), options()), file);
  const std::vector<int32_t> tokens = test::random_tokens(300, tiny->vocab_size(), 3);
  const test::Logits plain = [&] {
    Engine engine(tiny, test::plain_options(300, 64));
    return test::engine_logits(engine, engine.cache().create(), tokens, 290);
  }();
  const auto divergence = [&](const char* kv) {
    EngineOptions fitted = test::plain_options(300, 64);
    parse_kv(kv, fitted.cache);
    fitted.cache.sink = 16;
    fitted.cache.recent = 64;
    fitted.cache.calibration = file;
    Engine engine(tiny, fitted);
    return test::distance(test::engine_logits(engine, engine.cache().create(), tokens, 290), plain).divergence;
  };
  // Random weights have no spectrum to speak of, so this shows that fits arrive, not what they are worth.
  EXPECT_LT(divergence("spectral4"), divergence("turbo1"));
  EXPECT_LT(divergence("spectral2"), divergence("turbo1"));

  const std::string other = folder_.file("other.gguf");
  test::write_tiny_gguf({.seed = 2}, other);
  CacheOptions options;
  parse_kv("spectral3", options);
  options.calibration = file;
  try {
    with_fitted_codecs(options, other);
    FAIL() << "a calibration of another model was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find(model_fingerprint(other)), std::string::npos) << error.what();
  }
}

// Rotary positions are relative: a text may start anywhere.
TEST_F(CalibrationRun, WhereATextStartsChangesKeysAndNotAttention) {
  const auto tiny = model();
  const std::vector<int32_t> tokens = test::random_tokens(150, tiny->vocab_size(), 5);
  std::vector<test::Logits> logits;
  std::vector<double> keys;
  for (const int64_t start : {0, 3000}) {
    EngineOptions options = test::plain_options(150, 64);
    double sum = 0;
    options.observe = [&](int layer, const AttentionRows& rows) {
      for (int t = 0; layer == 0 && t < rows.tokens; ++t) sum += std::abs(double(rows.k.data[t * rows.k.token_stride]));
    };
    Engine engine(tiny, options);
    engine.start_at(start);
    logits.push_back(test::engine_logits(engine, engine.cache().create(), tokens, 140));
    keys.push_back(sum);
  }
  EXPECT_LT(test::distance(logits[1], logits[0]).divergence, 1e-4);
  EXPECT_GT(std::abs(keys[1] - keys[0]), 1e-3 * keys[0]);
  Engine engine(tiny, test::plain_options(150, 64));
  EXPECT_THROW(engine.start_at(-1), Error);
}

TEST_F(CalibrationRun, ModelsWriteTheSameTextForTheSameSeed) {
  const auto tiny = model();
  const auto once = write_texts(tiny, 3, 40, 7, 1, {});
  ASSERT_EQ(once.size(), 3u);
  for (const auto& text : once) EXPECT_EQ(text.size(), 40u);
  EXPECT_NE(once[0], once[1]);
  EXPECT_EQ(once, write_texts(tiny, 3, 40, 7, 1, {}));
  EXPECT_NE(once, write_texts(tiny, 3, 40, 8, 1, {}));
}

TEST(ModelFingerprint, TellsModelsApart) {
  const TemporaryFolder folder;
  const auto fingerprint = [&](const TinyModel& tiny) {
    test::write_tiny_gguf(tiny, folder.file("m.gguf"));
    return model_fingerprint(folder.file("m.gguf"));
  };
  const std::string first = fingerprint({});
  EXPECT_EQ(first.size(), 16u);
  EXPECT_EQ(first, fingerprint({}));
  EXPECT_NE(first, fingerprint({.layers = 3}));
  EXPECT_NE(first, fingerprint({.seed = 2}));
  std::ofstream(folder.file("none.gguf")) << "no GGUF";
  EXPECT_THROW(model_fingerprint(folder.file("none.gguf")), Error);
}

}  // namespace
}  // namespace kvasir
