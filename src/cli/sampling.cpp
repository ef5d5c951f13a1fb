// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/sampling.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <random>

#include "kvasir/error.h"

namespace kvasir::cli {

void add_sampling_flags(CLI::App& command, SamplingFlags& flags) {
  const std::string group = "Sampling";
  command.add_option("--temp", flags.temperature, "temperature; 0: always the likeliest token")
      ->group(group)
      ->capture_default_str();
  command.add_option("--top-k", flags.top_k, "only the K likeliest tokens; 0: all")
      ->group(group)
      ->capture_default_str();
  command.add_option("--top-p", flags.top_p, "only the likeliest tokens that make up P; 1: all")
      ->group(group)
      ->capture_default_str();
  command.add_option("--min-p", flags.min_p, "only tokens with P times the likeliest's probability; 0: all")
      ->group(group)
      ->capture_default_str();
  command.add_option("-s,--seed", flags.seed, "seed; -1: a random one")->group(group)->capture_default_str();
}

void check_sampling_flags(const SamplingFlags& flags) {
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  if (!(flags.temperature >= 0) || flags.temperature > 1e6)
    refuse(fmt::format("--temp takes 0 or more, got {}", flags.temperature));
  if (flags.top_k < 0) refuse(fmt::format("--top-k takes 0 or more, got {}", flags.top_k));
  if (!(flags.top_p > 0 && flags.top_p <= 1))
    refuse(fmt::format("--top-p takes more than 0 and at most 1, got {}", flags.top_p));
  if (!(flags.min_p >= 0 && flags.min_p <= 1)) refuse(fmt::format("--min-p takes 0 to 1, got {}", flags.min_p));
  if (flags.seed < -1 || flags.seed >= INT64_C(0xffffffff))
    refuse(fmt::format("--seed takes -1 to 4294967294, got {}", flags.seed));
}

Sampler::Sampler(const SamplingFlags& flags)
    : seed_(flags.seed < 0 ? std::random_device()() & 0x7fffffffu : uint32_t(flags.seed)),
      greedy_(flags.temperature == 0),
      chain_(llama_sampler_chain_init(llama_sampler_chain_default_params())) {
  if (greedy_) return;
  if (flags.top_k > 0) llama_sampler_chain_add(chain_.get(), llama_sampler_init_top_k(flags.top_k));
  if (flags.top_p < 1) llama_sampler_chain_add(chain_.get(), llama_sampler_init_top_p(float(flags.top_p), 1));
  if (flags.min_p > 0) llama_sampler_chain_add(chain_.get(), llama_sampler_init_min_p(float(flags.min_p), 1));
  llama_sampler_chain_add(chain_.get(), llama_sampler_init_temp(float(flags.temperature)));
  llama_sampler_chain_add(chain_.get(), llama_sampler_init_dist(seed_));
}

int32_t Sampler::sample(std::span<const float> logits) {
  bool sound = true;
  for (const float logit : logits) sound = sound && !std::isnan(logit);
  if (!sound) throw Error(ErrorCode::internal, "the model's logits hold NaN; nothing sound can be sampled from them");
  if (greedy_) return int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
  candidates_.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) candidates_[i] = {llama_token(i), logits[i], 0.0f};
  llama_token_data_array array{candidates_.data(), candidates_.size(), -1, false};
  llama_sampler_apply(chain_.get(), &array);
  if (array.selected < 0) throw Error(ErrorCode::internal, "the sampler chose no token");
  const llama_token token = array.data[array.selected].id;
  llama_sampler_accept(chain_.get(), token);
  return token;
}

}  // namespace kvasir::cli
