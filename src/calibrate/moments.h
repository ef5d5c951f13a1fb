// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What a calibration remembers of a model: second moments of its queries, keys, values and attention outputs, per KV
// head, summed in double. They grow with the head dim, not with the text, and every fit starts from them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "codec/turning_mean.h"
#include "kvasir/cache.h"

namespace kvasir {

// Sums over tokens, everything after RoPE and as attention uses it (but see key_mean). Matrices are symmetric, whole,
// row by row.
//
// An error e_t of key t changes the attention of query q where there is any, about sum_qt p_qt (q.e_t)^2 with p_qt what
// q pays to t. So keys and queries are also summed by the attention they get and pay: a_t = sum_q p_qt, m_q = sum_t
// p_qt over pairs of which t is in no 16-bit window.
struct HeadMoments {
  // Mean of the first window's keys turned back to position 0 [key_dim]; empty where keys are summed as they are. Else
  // `key`, `attended_key` and their sums are of keys without it (codec/turning_mean.h).
  std::vector<float> key_mean;
  std::vector<double> first_key_sum;     // sum of the first key of each window [key_dim]; empty where key_mean is
  double tokens = 0;                     // keys and values that were summed
  double queries = 0;                    // queries: tokens times query heads of the group
  double attention = 0;                  // sum of a_t = sum_q p_qt over those tokens
  double squares = 0;                    // sum of b_t = sum_q p_qt^2
  std::vector<double> key_sum;           // sum k [key_dim]
  std::vector<double> attended_key_sum;  // sum a_t k_t
  std::vector<double> value_sum;         // sum v [value_dim]
  std::vector<double> key;               // sum k k^T [key_dim, key_dim]
  std::vector<double> attended_key;      // sum a_t k_t k_t^T
  std::vector<double> query;             // sum q q^T over the group's queries
  std::vector<double> attended_query;    // sum m_q q q^T
  std::vector<double> value;             // sum v v^T [value_dim, value_dim]
  std::vector<double> attended_value;    // sum b_t v_t v_t^T: errors of tokens are independent, so their squares add
  // sum w_t v_t v_t^T with w_t = k_t^T M k_t over its mean, M the second moment of the window's queries: the proxy for
  // attention that OSCAR's authors ship (arXiv 2605.17757).
  std::vector<double> proxy_value;
  // sum o o^T over the group's attention outputs o = sum_t p_t v_t: exactly V^T S^T S V, the objective for values that
  // the paper states.
  std::vector<double> output;

  bool operator==(const HeadMoments&) const = default;
};

struct LayerMoments {
  int key_dim = 0, value_dim = 0, group = 0;
  float scale = 1;
  Rotary rotary;                   // how queries and keys turn with their position; empty: they don't, or nobody knows
  double windows = 0;              // of which there are first keys; 0 in older files
  std::vector<HeadMoments> heads;  // KV heads

  LayerMoments() = default;
  explicit LayerMoments(const LayerGeometry& geometry);
  bool operator==(const LayerMoments&) const = default;
};

// Made of every head's key_mean and first keys; null if they have no key_mean.
std::shared_ptr<const TurningMean> turning_mean(const LayerMoments& layer);

}  // namespace kvasir
