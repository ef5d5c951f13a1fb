// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/attention_run.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "cli/stream_bandwidth.h"

namespace kvasir::cli {
namespace {

// Rows whose exact results are worth their doubles: the ends of the batch, or four places of a block.
std::vector<std::pair<int, int>> rows_to_check(const LayerInput& input) {
  std::set<std::pair<int, int>> rows;
  for (const int sequence : {0, input.batch - 1})
    for (const int part : {0, 1, 2, 3}) rows.emplace(sequence, (input.block - 1) * part / 3);
  return {rows.begin(), rows.end()};
}

double sum_of_squares(const std::vector<double>& values) {
  double sum = 0;
  for (const double x : values) sum += x * x;
  return sum;
}

template <class A, class B>
double squared_difference(const A& a, const B& b) {
  double sum = 0;
  for (size_t i = 0; i < b.size(); ++i) sum += (double(a[i]) - double(b[i])) * (double(a[i]) - double(b[i]));
  return sum;
}

}  // namespace

AttentionRun::AttentionRun(AttentionSetup setup)
    : setup_(std::move(setup)),
      input_(input_of(setup_)),
      times_(0),
      out_(size_t(input_.rows()) * size_t(setup_.layer.heads) * size_t(setup_.layer.value_dim)) {
  for (const NamedOptions& codec : setup_.codecs) {
    AttentionMethod& method = methods_.emplace_back();
    method.name = codec.name;
    method.ours = std::make_unique<FilledCache>(input_, codec.options, setup_.copies);
    method.bytes = method.ours->bytes();
  }
  for (const std::string& type : setup_.baselines) {
    AttentionMethod& method = methods_.emplace_back();
    method.name = "ggml-" + type;
    method.ggml = std::make_unique<GgmlAttention>(type, input_, setup_.copies, setup_.options.threads);
    method.bytes = method.ggml->bytes();
  }
  for (AttentionMethod& method : methods_) {
    // Ours was filled with the past alone.
    const double held = method.ours ? double(setup_.past) / double(setup_.tokens()) : 1.0;
    method.bits_per_value = 8.0 * double(method.bytes) / (setup_.values() * held);
  }
  if (!setup_.flags.refcheck) return;
  checked_ = rows_to_check(input_);
  for (const auto& [sequence, row] : checked_) exact_.push_back(exact_attention(input_, sequence, row));
  for (AttentionMethod& method : methods_) check(method);
}

// A method that computed something else would be no baseline.
void AttentionRun::check(AttentionMethod& method) {
  step(method, 0);
  if (method.ggml) std::ranges::copy(method.ggml->output(0), out_.begin());
  AttentionErrors errors;
  double size = 0, kernel = 0, codec = 0;
  for (size_t i = 0; i < checked_.size(); ++i) {
    const auto& [sequence, row] = checked_[i];
    const std::vector<double>& exact = exact_[i];
    const float* out = out_.data() + (size_t(sequence) * size_t(input_.block) + size_t(row)) * exact.size();
    size += sum_of_squares(exact);
    if (method.ggml) {
      codec += squared_difference(out, exact);
      continue;
    }
    const std::vector<float> reference = method.ours->reference(sequence, row, setup_.options);
    codec += squared_difference(reference, exact);
    kernel += squared_difference(out, reference);
    for (size_t c = 0; c < reference.size(); ++c)
      errors.max = std::max(errors.max, std::abs(double(out[c]) - double(reference[c])));
  }
  errors.kernel = std::sqrt(kernel / size);
  errors.codec = std::sqrt(codec / size);
  method.errors = errors;
}

double AttentionRun::step(AttentionMethod& method, int copy) {
  if (method.ggml) return seconds([&] { method.ggml->run(copy); });
  method.ours->prepare(copy);
  const double time = seconds([&] { method.ours->step(out_, setup_.options); });
  method.ours->undo(copy);
  return time;
}

void AttentionRun::time() {
  bandwidth_ = stream_read_bandwidth(setup_.options.threads);
  const bool prefill = setup_.routine == Routine::prefill;
  const bool warm = prefill && setup_.flags.refcheck;  // the check ran the same block
  for (int round = warm ? 1 : 0; round <= setup_.repeat; ++round) {
    if (round <= 1) {  // round 0 warms up
      times_ = PairedTimes(methods_.size());
      for (AttentionMethod& method : methods_) method.append_seconds.clear();
    }
    for (int copy = 0; copy < setup_.copies; ++copy)
      times_.turn([&](size_t m) {
        AttentionMethod& method = methods_[m];
        const double time = step(method, copy);
        if (prefill && method.ours) {
          method.ours->prepare(copy);
          method.append_seconds.push_back(seconds([&] { method.ours->append(setup_.options.threads); }));
          method.ours->undo(copy);
        }
        return time;
      });
  }
}

double AttentionRun::gbps(size_t method) const {
  return double(methods_[method].bytes) / seconds_of(method).median * 1e-9;
}

double AttentionRun::ns_per_token(size_t method) const {
  return seconds_of(method).median * 1e9 / (double(setup_.tokens()) * setup_.sequences * setup_.layer.kv_heads);
}

double AttentionRun::gflops(size_t method) const {
  const double pairs = double(setup_.past) * setup_.block + 0.5 * double(setup_.block) * (setup_.block + 1);
  const double channels = setup_.layer.key_dim + setup_.layer.value_dim;
  return 2.0 * pairs * channels * setup_.layer.heads * setup_.sequences / seconds_of(method).median * 1e-9;
}

}  // namespace kvasir::cli
