// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// From a text to a calibration to a file of rotations and back, through the program.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "calibrate/calibration.h"
#include "calibrate/oscar_fit.h"
#include "calibrate/rotation_safetensors.h"
#include "tests/cli/tiny_model.h"
#include "tests/host/tiny_gguf.h"

namespace kvasir::cli::test {
namespace {

class Calibrate : public TinyModelTest {
 protected:
  Calibrate() { kvasir::test::write_tiny_gguf({.layers = 3}, file("other.gguf")); }
  std::string calibrate(std::vector<std::string> more) const {
    more.insert(more.begin(), {"calibrate", "-m", file("tiny.gguf")});
    return expect_success(more);
  }
  std::string generate(const std::string& flag, const std::string& path, const std::string& kv = "oscar2") const {
    return expect_success({"run", "-m", file("tiny.gguf"), "-f", file("text.txt"), "--raw", "-n", "16", "--temp", "0",
                           "--sink", "16", "--recent", "0", "--kv", kv, flag, path});
  }
};

TEST_F(Calibrate, RotationsFromAFileAreTheCalibrationsOwn) {
  calibrate({"-f", file("text.txt"), "-o", file("c.safetensors"), "--window", "256", "--tokens", "512",
             "--export-rotations", file("r.safetensors")});
  calibrate({"--calibration", file("c.safetensors"), "--export-rotations", file("r.gguf")});
  const Calibration calibration = load_calibration(file("c.safetensors"));
  EXPECT_EQ(calibration.tokens, 512);
  for (const Side side : {Side::key, Side::value})
    EXPECT_EQ(read_rotation_safetensors(file("r.safetensors"), side),
              oscar_rotation_set(calibration.layers, side, false));
  const std::string text = generate("--calibration", file("c.safetensors"));
  EXPECT_NE(text, "");
  EXPECT_EQ(generate("--rotations", file("r.safetensors")), text);
  EXPECT_EQ(generate("--rotations", file("r.gguf")), text);
  EXPECT_EQ(generate("--rotations", file("r.safetensors") + "," + file("r.gguf")), text);

  calibrate({"--calibration", file("c.safetensors"), "--per-head", "--export-rotations", file("heads.gguf")});
  EXPECT_EQ(generate("--rotations", file("heads.gguf")),
            generate("--calibration", file("c.safetensors"), "oscar2:heads=own"));
}

TEST_F(Calibrate, JsonSaysWhatWasWritten) {
  const std::string first = calibrate({"-f", file("text.txt"), "-o", file("c.safetensors"), "--window", "256",
                                       "--tokens", "256", "--export-rotations", file("r.gguf"), "--json"});
  EXPECT_NE(first.find("\"rotations\""), std::string::npos) << first;
  EXPECT_NE(first.find("\"tokens\""), std::string::npos) << first;
  const std::string second = calibrate(
      {"--calibration", file("c.safetensors"), "--export-rotations", file("s.safetensors"), "--per-head", "--json"});
  EXPECT_NE(second.find("\"per_head\": true"), std::string::npos) << second;
  EXPECT_EQ(second.front(), '{');
}

// Another model's calibration is refused by name.
TEST_F(Calibrate, BelongsToItsModel) {
  calibrate({"-f", file("text.txt"), "-o", file("c.safetensors"), "--window", "256", "--tokens", "256"});
  for (const auto& arguments :
       {std::vector<std::string>{"calibrate", "-m", file("other.gguf"), "--calibration", file("c.safetensors"),
                                 "--export-rotations", file("r.gguf")},
        {"plan", "-m", file("other.gguf"), "--kv", "spectral3", "--calibration", file("c.safetensors")}}) {
    const Outcome outcome = run_program(KVASIR_PROGRAM, arguments);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_NE(outcome.last_error_line().find("c.safetensors"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.last_error_line().find("not with this model"), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace kvasir::cli::test
