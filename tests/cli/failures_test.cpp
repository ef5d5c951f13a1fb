// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Everything that can be asked wrongly: an exit status, one clear sentence, nothing on stdout.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "attention/kernels.h"
#include "base/random.h"
#include "calibrate/rotation_safetensors.h"
#include "tests/calibrate/rotation_samples.h"
#include "tests/cli/program.h"
#include "tests/host/tiny_gguf.h"

namespace kvasir::cli::test {
namespace {

using kvasir::test::sample_rotations;
using kvasir::test::SampleShape;
using kvasir::test::TemporaryFolder;
using Arguments = std::vector<std::string>;

class Failures : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder();
    kvasir::test::write_tiny_gguf({.seed = 77}, file("tiny.gguf"));  // no other test calibrates it
    std::ofstream(file("text.txt")) << "just a few words";
  }
  static void TearDownTestSuite() { delete folder_; }
  static std::string file(const std::string& name) { return folder_->file(name); }
  static std::string tiny() { return file("tiny.gguf"); }

  static void expect_failure(const Arguments& arguments, int status, const std::vector<std::string>& words) {
    std::string line;
    for (const std::string& argument : arguments) line += argument + " ";
    const Outcome outcome = run_program(KVASIR_PROGRAM, arguments);
    EXPECT_EQ(outcome.status, status) << line << "\n" << outcome.err;
    EXPECT_EQ(outcome.out, "") << line;
    // One line that starts with the program's name, and it's the last.
    size_t sentences = 0;
    for (size_t at = 0; (at = outcome.err.find("kvasir: ", at)) != std::string::npos; at += 8)
      sentences += at == 0 || outcome.err[at - 1] == '\n';
    EXPECT_EQ(sentences, 1u) << line << "\n" << outcome.err;
    EXPECT_EQ(outcome.last_error_line().rfind("kvasir: ", 0), 0u) << line << "\n" << outcome.err;
    for (const std::string& word : words)
      EXPECT_NE(outcome.last_error_line().find(word), std::string::npos)
          << line << "\nlacks '" << word << "': " << outcome.err;
  }

 private:
  static inline TemporaryFolder* folder_ = nullptr;
};

TEST_F(Failures, CommandsAndFlags) {
  expect_failure({}, 2, {"name a command", "run", "plan"});
  expect_failure({"frobnicate"}, 2, {"frobnicate", "run"});
  expect_failure({"eval"}, 2, {"kld"});
  expect_failure({"run", "--frobnicate"}, 2, {"--frobnicate", "kvasir run --help"});
  expect_failure({"run", "-m", tiny(), "-p", "x", "-t", "many"}, 2, {"--threads"});
  expect_failure({"run", "-m"}, 2, {"--model"});
}

TEST_F(Failures, WhatIsMissing) {
  expect_failure({"run", "-p", "x"}, 2, {"-m"});
  expect_failure({"chat"}, 2, {"-m"});
  expect_failure({"plan"}, 2, {"-m"});
  expect_failure({"eval", "kld", "-m", tiny()}, 2, {"-f"});
  expect_failure({"distort", "--kv", "turbo4"}, 2, {"--dim"});
  expect_failure({"run", "-m", tiny()}, 2, {"prompt is empty"});
  expect_failure({"run", "-m", tiny(), "-p", " \n"}, 2, {"prompt is empty"});
}

TEST_F(Failures, ValuesOutOfRange) {
  const Arguments run = {"run", "-m", tiny(), "-p", "x"};
  const auto with = [&](Arguments more) {
    more.insert(more.begin(), run.begin(), run.end());
    return more;
  };
  expect_failure(with({"-c", "-1"}), 2, {"-c"});
  expect_failure(with({"-t", "-1"}), 2, {"-t"});
  expect_failure(with({"-ub", "0"}), 2, {"-ub"});
  expect_failure(with({"-n", "-2"}), 2, {"-n"});
  expect_failure(with({"-ngl", "99"}), 2, {"-ngl", "CPU"});
  expect_failure(with({"--temp", "-0.5"}), 2, {"--temp"});
  expect_failure(with({"--top-p", "0"}), 2, {"--top-p"});
  expect_failure(with({"--sink", "-1"}), 2, {"--sink"});
  expect_failure(with({"--kv-budget", "12Q"}), 2, {"--kv-budget"});
  expect_failure(with({"--kv-layers", "7:q8"}), 2, {"--kv-layers", "7"});
  expect_failure({"distort", "--kv", "turbo4", "--dim", "13"}, 2, {"13"});
  expect_failure({"distort", "--kv", "turbo4", "--dim", "64", "--side", "left"}, 2, {"--side"});
  expect_failure({"plan", "-m", tiny(), "-c", "0"}, 2, {"-c"});
}

TEST_F(Failures, UnknownCodecs) {
  expect_failure({"run", "-m", tiny(), "-p", "x", "--kv", "turbo9"}, 2, {"turbo9", "turbo4", "q8"});
  expect_failure({"run", "-m", tiny(), "-p", "x", "-ctk", "q4_9"}, 2, {"q4_9"});
  expect_failure({"eval", "kld", "-m", tiny(), "-f", file("text.txt"), "-c", "8", "--kv", "native:q9"}, 2,
                 {"q9", "q8_0"});
  expect_failure({"eval", "kld", "-m", tiny(), "-f", file("text.txt"), "-c", "8", "--base", "what"}, 2, {"what"});
  expect_failure({"plan", "-m", tiny(), "--kv", "turbo4,"}, 2, {"--kv"});
  expect_failure({"distort", "--kv", "nothing", "--dim", "64", "--json"}, 2, {"nothing"});
}

TEST_F(Failures, Tuning) {
  std::ofstream words(file("words.txt"));
  for (int i = 0; i < 200; ++i) words << "word " << i << "\n";
  words.close();
  const auto with = [](Arguments more) {
    more.insert(more.begin(), {"tune", "-m", tiny(), "-c", "256", "--sink", "0", "--recent", "0"});
    return more;
  };
  const std::string text = file("words.txt"), out = file("tuned.json");
  expect_failure({"tune", "-f", text, "--bits", "3", "-o", out}, 2, {"-m"});
  expect_failure(with({"--bits", "3", "-o", out}), 2, {"-f"});
  expect_failure(with({"-f", text, "-o", out}), 2, {"--bits", "--kld"});
  expect_failure(with({"-f", text, "--bits", "3", "--kld", "0.1", "-o", out}), 2, {"--bits", "--kld"});
  expect_failure(with({"-f", text, "--bits", "3"}), 2, {"-o"});
  expect_failure(with({"-f", text, "--bits", "17", "-o", out}), 2, {"--bits", "17"});
  expect_failure(with({"-f", text, "--kld", "0", "-o", out}), 2, {"--kld"});
  expect_failure(with({"-f", text, "--bits", "3", "-o", file("no/such/folder")}), 1, {"no/such/folder"});
  expect_failure(with({"-f", file("absent.txt"), "--bits", "3", "-o", out}), 1, {"absent.txt"});
  expect_failure(with({"-f", text, "--bits", "3", "-o", out, "--candidates", "turbo2,turbo9"}), 2, {"turbo9", "q8"});
  expect_failure(with({"-f", text, "--bits", "3", "-o", out, "--candidates", "spectral3"}), 1, {"kvasir calibrate"});
  expect_failure(with({"-f", text, "--bits", "3", "-o", out, "--groups", "3"}), 2, {"--groups", "2"});
  expect_failure(with({"-f", text, "--bits", "1", "-o", out}), 2, {"--bits 1", "8.375", "--candidates"});
  expect_failure(with({"-f", text, "--kld", "1e-12", "-o", out, "--candidates", "turbo2,turbo3"}), 2,
                 {"--kld 1e-12", "bits a value"});
  expect_failure({"tune", "-m", tiny(), "-f", text, "-c", "256", "--bits", "3", "-o", out}, 2,
                 {"-c", "--sink", "--recent"});
  EXPECT_FALSE(std::ifstream(out).good());
}

TEST_F(Failures, TunedFiles) {
  const auto plan = [](const std::string& name, Arguments more = {}) {
    more.insert(more.begin(), {"plan", "-m", tiny(), "--kv", "@" + file(name)});
    return more;
  };
  std::ofstream(file("words.json")) << "no JSON";
  std::ofstream(file("list.json")) << "[1]";
  std::ofstream(file("format.json")) << R"({"format": "other", "model": "x", "kv": "q8", "kv_layers": "0:q8"})";
  std::ofstream(file("number.json")) << R"({"format": "kvasir tune 1", "model": 7, "kv": "q8", "kv_layers": "0:q8"})";
  std::ofstream(file("other.json")) << R"({"format": "kvasir tune 1", "model": "x", "kv": "q8", "kv_layers": "0:q8"})";
  expect_failure(plan("absent.json"), 2, {"absent.json", "kvasir tune"});
  for (const char* name : {"words.json", "list.json", "format.json", "number.json"})
    expect_failure(plan(name), 2, {name, "kvasir tune"});
  expect_failure(plan("other.json"), 2, {"other.json", "another model"});
  expect_failure(plan("other.json", {"--kv-layers", "0:q8"}), 2, {"--kv-layers"});
  expect_failure(plan("other.json", {"-ctk", "q8"}), 2, {"-ctk"});
}

TEST_F(Failures, AttentionBench) {
  const auto with = [](Arguments more) {
    more.insert(more.begin(), {"bench", "attention"});
    return more;
  };
  expect_failure(with({"--routine", "dance"}), 2, {"--routine", "decode", "prefill", "encode", "dance"});
  for (const char* routine : {"decode", "prefill", "encode"})
    expect_failure(with({"--routine", routine, "--batch", "0"}), 2, {"--batch", "1 or more"});
  expect_failure(with({"--heads", "3"}), 2, {"--heads", "--kv-heads"});
  expect_failure(with({"--head-dim", "600"}), 2, {"--head-dim", "512"});
  expect_failure(with({"--head-dim", "13", "--baselines", "f16"}), 2, {"turbo4", "13", "multiples of 8"});
  expect_failure(with({"--head-dim", "96", "--kv", "oscar2"}), 2, {"oscar2", "96", "power of two"});
  expect_failure(with({"--head-dim", "72", "--baselines", "f16,q4_0"}), 2, {"q4_0", "72", "--baselines"});
  expect_failure(with({"--baselines", "q9"}), 2, {"--baselines", "q8_0", "none", "q9"});
  expect_failure(with({"--baselines", "f16,f16"}), 2, {"--baselines", "f16", "twice"});
  expect_failure(with({"--simd", "mmx"}), 2, {"--simd", "avx2", "neon", "mmx"});
  if (!simd_available(SimdLevel::neon)) expect_failure(with({"--simd", "neon"}), 2, {"neon", "scalar", "KVASIR_SIMD"});
  expect_failure(with({"--tokens", "1"}), 2, {"--tokens"});
  expect_failure(with({"--tokens", "1000000000000"}), 2, {"MiB", "fewer --tokens"});
  expect_failure(with({"--batch", "2000000000"}), 2, {"MiB", "--batch"});
  expect_failure(with({"-t", "0"}), 2, {"-t"});
  expect_failure(with({"-t", "1000"}), 2, {"-t", "512"});
  expect_failure(with({"--repeat", "0"}), 2, {"--repeat"});
  expect_failure(with({"--recent", "-1"}), 2, {"--recent"});
  expect_failure(with({"--routine", "encode", "--tokens", "100"}), 2, {"100", "--recent", "more --tokens"});
  expect_failure(with({"--kv", "turbo9"}), 2, {"turbo9"});
  expect_failure(with({"--kv", "turbo4", "--calibration", file("c")}), 2, {"--calibration", "spectral3"});
  expect_failure(with({"--kv", "spectral3", "--calibration", file("absent")}), 1, {"absent"});
  expect_failure(with({"--shapes", "--kv", "turbo4"}), 2, {"--shapes", "--kv"});
}

TEST_F(Failures, Files) {
  std::ifstream source(tiny(), std::ios::binary);
  const std::string whole(std::istreambuf_iterator<char>(source), {});
  std::ofstream(file("empty.gguf"));
  std::ofstream(file("head.gguf"), std::ios::binary) << whole.substr(0, 1000);
  std::ofstream(file("cut.gguf"), std::ios::binary) << whole.substr(0, whole.size() / 2);
  std::string noise(5000, '\0');
  SplitMix random(1);
  for (char& byte : noise) byte = char(random.next());
  std::ofstream(file("noise.gguf"), std::ios::binary) << noise;
  std::ofstream(file("named.gguf"), std::ios::binary) << "GGUF" << noise;
  for (const char* command : {"run", "plan"}) {
    const auto with = [&](const std::string& model) {
      Arguments arguments = {command, "-m", model};
      if (arguments[0] == "run") arguments.insert(arguments.end(), {"-p", "x"});
      return arguments;
    };
    expect_failure(with(file("absent.gguf")), 1, {"absent.gguf"});
    expect_failure(with("no-such-model"), 1, {"no-such-model", "smollm2"});
    for (const char* name : {"empty.gguf", "head.gguf", "noise.gguf", "named.gguf"})
      expect_failure(with(file(name)), 1, {name});
  }
  expect_failure({"run", "-m", file("cut.gguf"), "-p", "x"}, 1, {"cut.gguf"});
  expect_failure({"run", "-m", tiny(), "-f", file("absent.txt")}, 1, {"absent.txt"});
  expect_failure({"run", "-m", tiny(), "-f", file("")}, 1, {"folder"});
  expect_failure({"distort", "--dim", "8", "--input", file("noise.gguf")}, 1, {"noise.gguf"});
}

TEST_F(Failures, TooLittleRoom) {
  const std::string text(200, 'x');
  expect_failure({"run", "-m", tiny(), "-p", text, "--raw", "-c", "64"}, 1, {"64", "-c"});
  expect_failure({"run", "-m", tiny(), "-p", text, "--raw", "-c", "64", "--json"}, 1, {"64", "-c"});
  expect_failure({"run", "-m", tiny(), "-p", text, "--raw", "--kv-budget", "1K"}, 1, {"--kv-budget"});
  expect_failure({"eval", "kld", "-m", tiny(), "-f", file("text.txt"), "-c", "512"}, 2, {"512", "-c"});
}

TEST_F(Failures, ModelsThatCannotRun) {
  kvasir::test::write_bare_gguf("bert", {}, {{"bert.attention.causal", false}}, file("bert.gguf"));
  expect_failure({"run", "-m", file("bert.gguf"), "-p", "x"}, 1, {"bert", "embedding"});
  // A sound model, but without a template there is no chat.
  expect_failure({"chat", "-m", tiny()}, 1, {"chat template", "run"});
  expect_failure({"run", "-m", tiny(), "-p", "x", "--system", "y"}, 2, {"--system"});
}

// The tiny model has 2 layers of 2 KV heads of 64 channels.
TEST_F(Failures, Rotations) {
  const auto write = [](const std::string& name, SampleShape shape, bool both) {
    std::vector<RotationSet> sets = {sample_rotations(shape)};
    shape.side = Side::value;
    if (both) sets.push_back(sample_rotations(shape));
    write_rotation_safetensors(sets, file(name));
  };
  write("good.safetensors", {.dim = 64}, true);
  write("keys.safetensors", {.dim = 64}, false);
  write("narrow.safetensors", {.dim = 32}, true);
  write("deep.safetensors", {.layers = {0, 1, 2}, .dim = 64}, true);
  write("heads.safetensors", {.dim = 64, .heads = 3}, true);
  std::ofstream(file("zoo.pt"), std::ios::binary) << "PK and so on";
  std::ofstream(file("words.pt")) << "no rotations at all";
  const auto with = [](const std::string& kv, const std::string& files) {
    return Arguments{"run", "-m", tiny(), "-p", "x", "--kv", kv, "--rotations", files};
  };
  const auto two = [](const std::string& keys, const std::string& values) { return file(keys) + "," + file(values); };
  expect_failure(with("turbo4", file("good.safetensors")), 2, {"--rotations", "oscar2", "turbo4"});
  expect_failure(with("oscar2", file("good.safetensors") + ","), 2, {"K_FILE,V_FILE"});
  expect_failure(with("oscar2", file("absent.gguf")), 1, {"absent.gguf"});
  expect_failure(with("oscar2", file("words.pt")), 1, {"words.pt", ".safetensors"});
  expect_failure(with("oscar2", file("zoo.pt")), 2, {"zoo.pt", "one side", "V_FILE"});
  expect_failure(with("oscar2", two("zoo.pt", "zoo.pt")), 1, {"zoo.pt"});
  expect_failure(with("oscar2", file("keys.safetensors")), 2, {"keys.safetensors", "value"});
  expect_failure(with("oscar2", file("narrow.safetensors")), 2, {"narrow.safetensors", "32", "64"});
  expect_failure(with("oscar2", file("deep.safetensors")), 2, {"deep.safetensors", "3 layers"});
  expect_failure(with("oscar2", file("heads.safetensors")), 2, {"heads.safetensors", "3 KV heads"});
  expect_failure(with("turbo4,oscar2", two("good.safetensors", "narrow.safetensors")), 2, {"narrow.safetensors"});
  // No calibration of this model: what only one can give.
  expect_failure(with("oscar2:mean=on", file("good.safetensors")), 2, {"mean=on", "good.safetensors", "calibrat"});
  expect_failure(with("oscar2,spectral3", file("good.safetensors")), 2, {"spectral3", "kvasir calibrate"});
  expect_failure(with("oscar2:rotation=h", file("good.safetensors")), 2, {"rotation=", "good.safetensors"});
  expect_failure({"plan", "-m", tiny(), "--kv", "oscar2"}, 1, {"kvasir calibrate", "--calibration"});
}

TEST_F(Failures, Calibrations) {
  const auto with = [](Arguments more) {
    more.insert(more.begin(), {"calibrate", "-m", tiny()});
    return more;
  };
  expect_failure({"calibrate", "--export-rotations", file("r.gguf")}, 2, {"-m"});
  expect_failure(with({"-f", file("absent.txt")}), 1, {"absent.txt"});
  expect_failure(with({"-f", file("text.txt"), "-o", file("c")}), 2, {"window", "--window"});
  expect_failure(with({"-f", file("text.txt"), "--window", "8"}), 2, {"--window"});
  expect_failure(with({"--per-head"}), 2, {"--per-head", "--export-rotations"});
  expect_failure(with({"--calibration", file("c")}), 2, {"--calibration", "--export-rotations"});
  expect_failure(with({"--export-rotations", file("r.pt")}), 2, {"r.pt", ".safetensors", ".gguf"});
  expect_failure(with({"-f", file("text.txt"), "--calibration", file("c"), "--export-rotations", file("r.gguf")}), 2,
                 {"-f", "--calibration"});
  expect_failure(with({"--calibration", file("c"), "--export-rotations", file("r.gguf")}), 1, {"no calibration"});
  expect_failure(with({"--calibration", file("text.txt"), "--export-rotations", file("r.gguf")}), 1, {"text.txt"});
  expect_failure(with({"--export-rotations", file("r.gguf")}), 1, {"-f", "--calibration"});
}

}  // namespace
}  // namespace kvasir::cli::test
