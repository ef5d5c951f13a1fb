// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/cell_scores.h"

#include "eval/divergence_summary.h"

namespace kvasir {

void CellScores::add(double score, const ReadAnswer& answer) {
  scores_.push_back(score);
  if (answer.right_tokens > 0) log_likelihoods_.push_back(answer.right_log_likelihood / double(answer.right_tokens));
}

void CellScores::add(const CellScores& cell) {
  scores_.insert(scores_.end(), cell.scores_.begin(), cell.scores_.end());
  log_likelihoods_.insert(log_likelihoods_.end(), cell.log_likelihoods_.begin(), cell.log_likelihoods_.end());
}

double CellScores::score() const {
  return mean_error(scores_).mean;
}

void CellScores::write(nlohmann::json& out) const {
  const MeanError score = mean_error(scores_), likelihood = mean_error(log_likelihoods_);
  out["score"] = score.mean;
  out["score_se"] = score.se;
  out["n"] = scores_.size();
  if (log_likelihoods_.empty()) return;
  out["answer_logprob"] = likelihood.mean;
  out["answer_logprob_se"] = likelihood.se;
}

void write_use(const CacheUse& use, nlohmann::json& out) {
  out["bits_per_value"] = use.bits_per_value;
  out["bytes"] = use.bytes;
  out["bytes_f16"] = use.bytes_f16;
}

}  // namespace kvasir
