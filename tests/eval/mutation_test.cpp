// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The bugs of mutation_model_test.cpp in a model with random weights: quick, and no file is needed. The factors are
// about half of those measured, except for the sinks, which random weights don't depend on more than on other tokens.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "eval/document.h"
#include "eval/text_chunks.h"
#include "tests/eval/mutant_source.h"
#include "tests/host/tiny_gguf.h"

namespace kvasir {
namespace {

using test::Mutation;

std::map<Mutation, MeanError> divergences(const std::string& codec, const std::vector<Mutation>& mutations) {
  const test::TemporaryFolder folder;
  test::write_tiny_gguf({}, folder.file("tiny.gguf"));
  const std::shared_ptr<Model> model = Model::load(folder.file("tiny.gguf"));
  EngineOptions options;
  options.cache.key = options.cache.value = codec;
  options.cache.recent = 0;
  options.context = 512;
  options.micro_batch = 64;
  options.threads = 1;
  const auto windows = cut_chunks(*model, write_document(1, 20).text, options.context, 1);
  return test::mutant_divergences(model, options, windows[0], mutations);
}

TEST(Mutation, EachBugShowsAtEightBits) {
  const auto kld =
      divergences("q8", {Mutation::none, Mutation::scale_off, Mutation::head_swapped, Mutation::sink_packed});
  EXPECT_GT(kld.at(Mutation::scale_off).mean, 15 * kld.at(Mutation::none).mean);
  EXPECT_GT(kld.at(Mutation::head_swapped).mean, 1000 * kld.at(Mutation::none).mean);
  EXPECT_GT(kld.at(Mutation::sink_packed).mean, 1.2 * kld.at(Mutation::none).mean);
}

}  // namespace
}  // namespace kvasir
