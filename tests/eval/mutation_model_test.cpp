// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Three planted bugs, each of which the KLD of the harness has to show. The factors are about half of those measured
// with SmolLM2 (F32 weights) over 1,024 tokens of the project's own document.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "eval/document.h"
#include "eval/text_chunks.h"
#include "tests/eval/mutant_source.h"

namespace kvasir {
namespace {

using test::Mutation;

std::map<Mutation, MeanError> divergences(const std::string& codec, const std::vector<Mutation>& mutations) {
  const std::shared_ptr<Model> model = Model::load(resolve_model("smollm2-f32"));
  EngineOptions options;
  options.cache.key = options.cache.value = codec;
  options.cache.recent = 64;
  options.context = 1024;
  options.micro_batch = 64;
  options.threads = 2;
  const auto windows = cut_chunks(*model, write_document(1, 20).text, options.context, 1);
  return test::mutant_divergences(model, options, windows[0], mutations);
}

TEST(Mutation, ScalesTwoPerCentOffShowAtEightBits) {
  const auto kld = divergences("q8", {Mutation::none, Mutation::scale_off});
  EXPECT_GT(kld.at(Mutation::scale_off).mean, 100 * kld.at(Mutation::none).mean);
}

TEST(Mutation, EachBugShowsAtFourBits) {
  const auto kld =
      divergences("turbo4", {Mutation::none, Mutation::scale_off, Mutation::head_swapped, Mutation::sink_packed});
  EXPECT_GT(kld.at(Mutation::scale_off).mean, 1.4 * kld.at(Mutation::none).mean);
  EXPECT_GT(kld.at(Mutation::head_swapped).mean, 6 * kld.at(Mutation::none).mean);
  EXPECT_GT(kld.at(Mutation::sink_packed).mean, 1.5 * kld.at(Mutation::none).mean);
}

}  // namespace
}  // namespace kvasir
