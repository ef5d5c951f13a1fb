// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Decode and prefill of `kvasir bench attention`: ours and ggml's own over the same tokens, checked, then timed in
// turns.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/attention_setup.h"
#include "cli/filled_cache.h"
#include "cli/ggml_attention.h"
#include "cli/paired_times.h"
#include "cli/terminal.h"

namespace kvasir::cli {

// All over the same output rows. Of a baseline only `codec` is known: its whole error.
struct AttentionErrors {
  double max = 0;     // largest difference between the kernels and the double-precision path over the same pages
  double kernel = 0;  // RMS of that difference, over the RMS of exact attention
  double codec = 0;   // the same of what the double-precision path makes of the pages against exact attention
  double share() const { return codec > 0 ? kernel / codec : 0.0; }
};

struct AttentionMethod {
  std::string name;
  std::unique_ptr<FilledCache> ours;
  std::unique_ptr<GgmlAttention> ggml;  // one of the two
  size_t bytes = 0;                     // that one step reads
  double bits_per_value = 0;            // windows and scales included
  std::optional<AttentionErrors> errors;
  std::vector<double> append_seconds;  // prefill: encoding of the same block alone, once for each turn
};

class AttentionRun {
 public:
  // Encodes everything, and checks it unless --no-refcheck.
  explicit AttentionRun(AttentionSetup setup);
  void time();

  const AttentionSetup& setup() const { return setup_; }
  // Codecs in the order asked for, then baselines.
  const std::vector<AttentionMethod>& methods() const { return methods_; }
  size_t codecs() const { return setup_.codecs.size(); }
  double stream_bandwidth() const { return bandwidth_; }  // bytes a second
  Quartiles seconds_of(size_t method) const { return times_.time(method); }
  // Time of a baseline over time of a codec.
  Quartiles ratio(size_t codec, size_t baseline) const { return times_.ratio(codec, baseline); }

  double gbps(size_t method) const;
  double stream_share(size_t method) const { return gbps(method) * 1e9 / bandwidth_; }
  double ns_per_token(size_t method) const;  // in the cache, and KV head
  double gflops(size_t method) const;        // of both products of attention

  std::vector<std::string> ratio_titles() const;
  std::vector<std::string> ratio_cells(size_t method) const;
  // A row for each method: its name and bits, the routine's own cells, then errors and ratios.
  std::string table(const std::vector<std::string>& titles,
                    const std::function<std::vector<std::string>(size_t method)>& cells) const;
  // Instruction sets, bandwidth, copies, rounds.
  std::string conditions() const;
  // What the fitted codecs became, a line each; empty if there are none.
  std::string fits() const;
  // Everything, the first codec at the top level.
  Json json() const;

 private:
  void check(AttentionMethod& method);
  double step(AttentionMethod& method, int copy);
  std::vector<std::string> error_titles() const;
  std::vector<std::string> error_cells(size_t method) const;
  Json figures(size_t method) const;

  AttentionSetup setup_;
  LayerInput input_;
  std::vector<AttentionMethod> methods_;
  PairedTimes times_;
  double bandwidth_ = 0;
  std::vector<float> out_;
  std::vector<std::pair<int, int>> checked_;  // (sequence, row)
  std::vector<std::vector<double>> exact_;    // of those
};

// "1.23 (1.20-1.30)": median and quartiles.
std::string quartiles_text(const Quartiles& values, double factor, int digits);

}  // namespace kvasir::cli
