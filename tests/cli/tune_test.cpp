// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// From a text to a choice of codecs to a cache that has it, through the program.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/tiny_model.h"
#include "tests/host/tiny_gguf.h"

namespace kvasir::cli::test {
namespace {

using Json = nlohmann::json;

class Tune : public TinyModelTest {
 protected:
  // The tiny model has 2 layers: two groups.
  Json tune(const std::vector<std::string>& target, const std::string& out) const {
    std::vector<std::string> arguments = {"tune",
                                          "-m",
                                          file("tiny.gguf"),
                                          "-f",
                                          file("text.txt"),
                                          "-c",
                                          "256",
                                          "-o",
                                          file(out),
                                          "--sink",
                                          "16",
                                          "--recent",
                                          "0",
                                          "--candidates",
                                          "turbo2,turbo3,q8",
                                          "--json"};
    arguments.insert(arguments.end(), target.begin(), target.end());
    return Json::parse(expect_success(arguments));
  }
};

TEST_F(Tune, TheChoiceMeetsItsTarget) {
  const Json by_bits = tune({"--bits", "4"}, "bits.json");
  EXPECT_EQ(by_bits.at("format"), "kvasir tune 1");
  EXPECT_LE(by_bits.at("bits").get<double>(), 4.0);
  EXPECT_EQ(by_bits.at("units").size(), 4u);
  const Json& frontier = by_bits.at("frontier");
  ASSERT_GE(frontier.size(), 2u);
  for (size_t i = 1; i < frontier.size(); ++i) {
    EXPECT_GT(frontier[i].at("bits").get<double>(), frontier[i - 1].at("bits").get<double>());
    EXPECT_LT(frontier[i].at("kld").get<double>(), frontier[i - 1].at("kld").get<double>());
  }
  EXPECT_GT(by_bits.at("kld").at("measured").get<double>(), 0.0);
  EXPECT_LE(by_bits.at("best_uniform").at("bits").get<double>(), by_bits.at("bits").get<double>() + 1e-9);

  const double wanted = frontier[1].at("kld").get<double>();
  const Json by_kld = tune({"--kld", Json(wanted * 1.001).dump()}, "kld.json");
  EXPECT_LE(by_kld.at("kld").at("predicted").get<double>(), wanted * 1.001);
}

// --kv @FILE is the --kv and --kv-layers that the file names.
TEST_F(Tune, TheFileIsACache) {
  const Json tuned = tune({"--bits", "4"}, "tuned.json");
  std::ifstream written(file("tuned.json"));
  EXPECT_EQ(Json::parse(written).at("kv_layers"), tuned.at("kv_layers"));
  const std::vector<std::string> plan = {"plan", "-m", file("tiny.gguf"), "-c", "2048", "--json", "--kv"};
  const auto bytes = [&](std::vector<std::string> more) {
    more.insert(more.begin(), plan.begin(), plan.end());
    return Json::parse(expect_success(more)).at("bytes");
  };
  EXPECT_EQ(bytes({"@" + file("tuned.json")}),
            bytes({tuned.at("kv").get<std::string>(), "--kv-layers", tuned.at("kv_layers").get<std::string>()}));
}

}  // namespace
}  // namespace kvasir::cli::test
