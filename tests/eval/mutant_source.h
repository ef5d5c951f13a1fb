// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// A Kvasir cache with a bug planted from outside: after each micro-batch, whatever was packed in it is damaged. The
// product's code knows nothing of this. A harness that doesn't notice these can't be trusted when it says that all is
// well.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "eval/divergence_summary.h"
#include "eval/logit_source.h"
#include "kvasir/engine.h"

namespace kvasir::test {

enum class Mutation {
  none,
  scale_off,     // every stored scale 2 % too large
  head_swapped,  // in one layer (the middle one) the pages of KV heads 0 and 1 change places
  sink_packed,   // the sink tokens went through the page codec, as if the window didn't protect them
};

class MutantSource : public LogitSource {
 public:
  MutantSource(std::shared_ptr<Model> model, EngineOptions options, Mutation mutation);

  void restart() override;
  void append(std::span<const int32_t> tokens, bool want_logits, std::vector<float>& logits) override;
  double bits_per_value() const override;
  size_t bytes() const override;
  size_t bytes_f16() const override;
  const Cache* cache() const override { return &engine_.cache(); }

 private:
  void damage_new_pages();
  void damage_sinks();

  Engine engine_;
  SequenceId sequence_;
  Mutation mutation_;
  std::vector<size_t> damaged_;  // pages of each layer that are done, per head
  bool sinks_done_ = false;
};

// KLD of `options`' cache with each of the bugs against Kvasir's f16, over one window, all in lockstep.
std::map<Mutation, MeanError> mutant_divergences(const std::shared_ptr<Model>& model, const EngineOptions& options,
                                                 std::span<const int32_t> window,
                                                 const std::vector<Mutation>& mutations);

}  // namespace kvasir::test
