// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir vector: a training-free vector index.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <thread>

#include "cli/commands.h"
#include "cli/vector_flags.h"
#include "kvasir/error.h"
#include "vector/scan.h"

namespace kvasir::cli {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

int64_t parse_id(const std::string& text, const std::string& whole) {
  int64_t id = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size() || id < 0 || id > VectorIndex::kLargestId)
    refuse(fmt::format("--ids takes numbers from 0 to 2^62 and ranges as in 3,17,20-29, got '{}'", whole));
  return id;
}

}  // namespace

VectorMetric parse_metric(const std::string& text) {
  if (text == "ip") return VectorMetric::inner_product;
  if (text == "cosine") return VectorMetric::cosine;
  if (text == "l2") return VectorMetric::l2;
  refuse(fmt::format("--metric takes ip, cosine or l2, got '{}'", text));
}

VectorCode parse_code(const std::string& text) {
  if (text == "scalar") return VectorCode::scalar;
  if (text == "trellis") return VectorCode::trellis;
  refuse(fmt::format("--code takes scalar or trellis, got '{}'", text));
}

RerankStore parse_rerank_store(const std::string& text) {
  if (text == "none") return RerankStore::none;
  if (text == "f16") return RerankStore::f16;
  if (text == "original") return RerankStore::original;
  refuse(fmt::format("--rerank takes none, f16 or original, got '{}'", text));
}

std::vector<int64_t> parse_ids(const std::string& text) {
  constexpr int64_t kLongestRange = 100'000'000;
  std::vector<int64_t> ids;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    const std::string part = text.substr(start, end - start);
    const size_t dash = part.find('-', 1);
    const int64_t first = parse_id(part.substr(0, dash), text);
    const int64_t last = dash == std::string::npos ? first : parse_id(part.substr(dash + 1), text);
    if (last < first || last - first >= kLongestRange)
      refuse(fmt::format("--ids has the range '{}', which is empty or too long", part));
    for (int64_t id = first; id <= last; ++id) ids.push_back(id);
    start = end + 1;
  }
  return ids;
}

int vector_threads(int flag) {
  if (flag < 0 || flag > 1024) refuse(fmt::format("-t takes 0 to 1024 threads, got {}", flag));
  return flag > 0 ? flag : int(std::max(1u, std::thread::hardware_concurrency()));
}

std::string to_string(VectorMetric metric) {
  return metric == VectorMetric::inner_product ? "ip" : metric == VectorMetric::cosine ? "cosine" : "l2";
}
std::string to_string(RerankStore store) {
  return store == RerankStore::none ? "none" : store == RerankStore::f16 ? "f16" : "original";
}

std::string to_string(VectorCode code) {
  return code == VectorCode::scalar ? "scalar" : "trellis";
}

Json index_json(const VectorIndex& index) {
  const VectorIndexOptions& options = index.options();
  const VectorIndexSize size = index.bytes();
  const double count = double(std::max<int64_t>(1, index.size()));
  return {{"vectors", index.size()},
          {"dim", options.dim},
          {"channels", index.channels()},
          {"bits", options.bits},
          {"code", to_string(options.code)},
          {"metric", to_string(options.metric)},
          {"rerank", to_string(options.rerank)},
          {"center", options.center},
          {"seed", options.seed},
          {"bytes", size.total()},
          {"bytes_codes", size.codes + size.scales},
          {"bytes_per_vector", double(size.codes + size.scales) / count},
          {"simd", kvasir::to_string(scan_kernels().level)}};
}

void add_vector(CLI::App& program) {
  CLI::App* vector = program.add_subcommand("vector", "a vector index without training, on the cache's quantizers");
  vector->require_subcommand(1);
  add_vector_build(*vector);
  add_vector_change(*vector);
  add_vector_search(*vector);
  add_vector_bench(*vector);
}

}  // namespace kvasir::cli
