// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// `kvasir vector` from outside: the JSON contract, what a changed file finds, and everything that can be asked wrongly.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/program.h"
#include "tests/host/tiny_gguf.h"

namespace kvasir::cli::test {
namespace {

using Json = nlohmann::json;
using Arguments = std::vector<std::string>;

class Vector : public testing::Test {
 protected:
  Vector() {
    std::ofstream(file("x.json")) << "{\"vectors\": {\"east\": [1, 0, 0], \"north\": [0, 1, 0], \"up\": [0, 0, 1]}}";
    std::ofstream(file("more.json")) << "[[-1, 0, 0]]";
    std::ofstream(file("flat.json")) << "[[1, 0]]";
    std::ofstream(file("nan.json")) << "[[1, 0, 1e99]]";
    std::ofstream(file("noise.kvx")) << "not an index at all";
  }
  std::string file(const std::string& name) const { return folder_.file(name); }

  Outcome program(Arguments arguments) const {
    arguments.insert(arguments.begin(), "vector");
    for (std::string& argument : arguments)
      if (argument.starts_with("@")) argument = file(argument.substr(1));
    return run_program(KVASIR_PROGRAM, arguments);
  }
  Json json(Arguments arguments) const {
    arguments.push_back("--json");
    const Outcome outcome = program(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    Json result = Json::parse(outcome.out, nullptr, false);
    EXPECT_TRUE(result.is_object()) << outcome.out;
    return result;
  }
  void expect_failure(const Arguments& arguments, int status, const std::vector<std::string>& words) const {
    const Outcome outcome = program(arguments);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    const std::string line = outcome.last_error_line();
    EXPECT_EQ(line.rfind("kvasir: ", 0), 0u) << outcome.err;
    for (const std::string& word : words)
      EXPECT_NE(line.find(word), std::string::npos) << "lacks " << word << ": " << line;
  }

  kvasir::test::TemporaryFolder folder_;
};

TEST_F(Vector, BuildSearchAddRemove) {
  const Json built = json({"build", "-f", "@x.json", "-o", "@x.kvx", "--rerank", "f16"});
  EXPECT_EQ(built.at("vectors"), 3);
  EXPECT_EQ(built.at("dim"), 3);
  EXPECT_EQ(built.at("bits"), 4);
  EXPECT_EQ(built.at("file_bytes"), std::filesystem::file_size(file("x.kvx")));
  EXPECT_GT(built.at("bytes"), 0);
  EXPECT_GE(built.at("build_seconds"), 0.0);

  const Json found = json({"search", "@x.kvx", "-f", "@x.json", "-k", "2", "--base", "@x.json"});
  EXPECT_EQ(found.at("queries"), 3);
  EXPECT_EQ(found.at("recall_at_1"), 1.0);
  EXPECT_GT(found.at("queries_per_second"), 0.0);
  for (int q = 0; q < 3; ++q) {
    const Json& hits = found.at("hits").at(size_t(q));
    EXPECT_EQ(hits.at("ids").size(), 2u);
    EXPECT_EQ(hits.at("ids").at(0), q);
    EXPECT_NEAR(hits.at("scores").at(0), 1.0, 0.05);
  }
  EXPECT_NE(program({"search", "@x.kvx", "-f", "@x.json"}).out.find("1:  1 ("), std::string::npos);

  EXPECT_EQ(json({"add", "@x.kvx", "-f", "@more.json", "--ids", "70"}).at("vectors"), 4);
  EXPECT_EQ(json({"search", "@x.kvx", "-f", "@more.json", "-k", "9", "--rerank", "9"}).at("hits").at(0).at("ids").at(0),
            70);
  const Json left = json({"remove", "@x.kvx", "--ids", "0-1,70"});
  EXPECT_EQ(left.at("vectors"), 1);
  EXPECT_EQ(left.at("removed"), 3);
  EXPECT_EQ(json({"info", "@x.kvx"}).at("vectors"), 1);
  EXPECT_EQ(json({"search", "@x.kvx", "-f", "@x.json"}).at("hits").at(0).at("ids"), Json::array({2}));
}

TEST_F(Vector, Bench) {
  const Json result = json({"bench", "--dim", "64", "-n", "500", "--queries", "40", "--clusters", "10", "--bits", "1,4",
                            "--rounds", "1", "--rerank", "100", "--save-data", "@data"});
  for (const char* key : {"recall_at_1", "recall_at_10", "bytes", "build_seconds", "queries_per_second"})
    EXPECT_GT(result.at(key), 0.0) << key;
  EXPECT_TRUE(result.at("build_ratio_pq").is_null());
  EXPECT_TRUE(result.at("query_ratio_pq").is_null());
  EXPECT_EQ(result.at("bits"), 4);
  ASSERT_EQ(result.at("results").size(), 2u);
  const Json& low = result.at("results").at(0);
  const Json& high = result.at("results").at(1);
  EXPECT_LT(low.at("recall_at_10"), high.at("recall_at_10"));
  EXPECT_LT(low.at("bytes_per_vector"), high.at("bytes_per_vector"));
  EXPECT_GT(low.at("reranked").at("recall_at_10"), low.at("recall_at_10"));
  double before = 0;
  for (const char* k : {"1", "2", "4", "8", "16", "32", "64"}) {
    EXPECT_GE(low.at("recall_1_at").at(k), before);
    before = low.at("recall_1_at").at(k);
  }
  // The saved vectors are those that were measured.
  const Json again =
      json({"bench", "-f", "@data/base.fvecs", "--query-file", "@data/queries.fvecs", "--bits", "4", "--rounds", "1"});
  EXPECT_EQ(again.at("recall_at_10"), result.at("recall_at_10"));
  const Json held_out = json({"bench", "-f", "@data/base.fvecs", "--queries", "50", "--bits", "2", "--rounds", "1"});
  EXPECT_EQ(held_out.at("vectors"), 450);
  EXPECT_EQ(held_out.at("queries"), 50);
}

TEST_F(Vector, WrongArguments) {
  expect_failure({}, 2, {"build", "search", "bench"});
  expect_failure({"build", "-o", "@y.kvx"}, 2, {"-f"});
  expect_failure({"build", "-f", "@x.json"}, 2, {"-o"});
  expect_failure({"build", "-f", "@x.json", "-o", "@y.kvx", "--bits", "5"}, 2, {"--bits", "5"});
  expect_failure({"build", "-f", "@x.json", "-o", "@y.kvx", "--metric", "hamming"}, 2, {"--metric", "hamming"});
  expect_failure({"build", "-f", "@x.json", "-o", "@y.kvx", "--rerank", "f8"}, 2, {"--rerank", "f8"});
  expect_failure({"build", "-f", "@nan.json", "-o", "@y.kvx"}, 2, {"nan.json"});
  json({"build", "-f", "@x.json", "-o", "@x.kvx"});
  expect_failure({"search", "@x.kvx"}, 2, {"-f"});
  expect_failure({"search", "-f", "@x.json"}, 2, {"index"});
  expect_failure({"search", "@x.kvx", "-f", "@x.json", "-k", "0"}, 2, {"-k"});
  expect_failure({"search", "@x.kvx", "-f", "@flat.json"}, 2, {"flat.json", "2", "3"});
  expect_failure({"search", "@x.kvx", "-f", "@x.json", "--rerank", "50"}, 2, {"--rerank", "f16"});
  expect_failure({"add", "@x.kvx", "-f", "@flat.json"}, 2, {"flat.json"});
  expect_failure({"add", "@x.kvx", "-f", "@more.json", "--ids", "1"}, 2, {"id 1"});
  expect_failure({"add", "@x.kvx", "-f", "@more.json", "--ids", "1;2"}, 2, {"--ids"});
  expect_failure({"remove", "@x.kvx"}, 2, {"--ids"});
  expect_failure({"remove", "@x.kvx", "--ids", "9223372036854775807"}, 2, {"2^62"});
  expect_failure({"remove", "@x.kvx", "--ids", "5-3"}, 2, {"5-3"});
  expect_failure({"bench", "--bits", "7"}, 2, {"--bits"});
  expect_failure({"bench", "--dim", "0"}, 2, {"--dim"});
  expect_failure({"bench", "-n", "0"}, 2, {"-n"});
  expect_failure({"bench", "--query-file", "@x.json"}, 2, {"-f"});
  expect_failure({"bench", "-f", "@x.json", "--queries", "3"}, 2, {"--queries"});
}

TEST_F(Vector, WrongFiles) {
  json({"build", "-f", "@x.json", "-o", "@x.kvx"});
  std::ifstream source(file("x.kvx"), std::ios::binary);
  const std::string whole(std::istreambuf_iterator<char>(source), {});
  const auto write = [&](const std::string& name, const std::string& bytes) {
    std::ofstream(file(name), std::ios::binary) << bytes;
  };
  write("cut.kvx", whole.substr(0, whole.size() - 64));
  std::string flipped = whole, later = whole;
  flipped[700] = char(flipped[700] ^ 1);  // behind the header
  later[8] = 7;
  write("flipped.kvx", flipped);
  write("later.kvx", later);
  expect_failure({"search", "@cut.kvx", "-f", "@x.json"}, 1, {"cut.kvx", "cut off"});
  expect_failure({"search", "@flipped.kvx", "-f", "@x.json"}, 1, {"flipped.kvx", "checksum"});
  expect_failure({"search", "@later.kvx", "-f", "@x.json"}, 1, {"later.kvx", "version 7"});
  expect_failure({"search", "@noise.kvx", "-f", "@x.json"}, 1, {"noise.kvx", "isn't a vector index"});
  expect_failure({"search", "@absent.kvx", "-f", "@x.json"}, 1, {"absent.kvx"});
  expect_failure({"search", "@x.kvx", "-f", "@absent.json"}, 1, {"absent.json"});
  expect_failure({"build", "-f", "@noise.kvx", "-o", "@y.kvx"}, 1, {"noise.kvx", ".fvecs"});
  expect_failure({"build", "-f", "@x.json", "-o", "@no/such/y.kvx"}, 1, {"y.kvx"});
  expect_failure({"remove", "@x.kvx", "--ids", "9"}, 1, {"9"});
  expect_failure({"info", "@flipped.kvx"}, 1, {"checksum"});
}

}  // namespace
}  // namespace kvasir::cli::test
