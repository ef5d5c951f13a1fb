// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Scores of questions, gathered by cell and over all cells.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "eval/context_reader.h"

namespace kvasir {

class CellScores {
 public:
  // `score` is 0-1; the answer brings the log-likelihood of the right one.
  void add(double score, const ReadAnswer& answer);
  void add(double score) { scores_.push_back(score); }
  void add(const CellScores& cell);

  size_t count() const { return scores_.size(); }
  double score() const;
  // In the order in which questions were added; the log-likelihoods, a token, of those that a model answered.
  const std::vector<double>& scores() const { return scores_; }
  const std::vector<double>& log_likelihoods() const { return log_likelihoods_; }

  // {"score", "score_se", "n"} and, where a model answered, {"answer_logprob", "answer_logprob_se"}: the mean
  // log-likelihood of the right answer per token. Standard errors are those of a mean of independent questions.
  void write(nlohmann::json& out) const;

 private:
  std::vector<double> scores_, log_likelihoods_;
};

void write_use(const CacheUse& use, nlohmann::json& out);  // "bits_per_value", "bytes", "bytes_f16"

}  // namespace kvasir
