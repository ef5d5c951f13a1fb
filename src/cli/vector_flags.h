// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The commands under `kvasir vector`, and what their flags and results share.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal.h"
#include "kvasir/vector.h"

namespace CLI {
class App;
}

namespace kvasir::cli {

void add_vector_build(CLI::App& vector);   // vector_build.cpp
void add_vector_change(CLI::App& vector);  // vector_change.cpp: add, remove, info
void add_vector_search(CLI::App& vector);  // vector_search.cpp
void add_vector_bench(CLI::App& vector);   // vector_bench.cpp

// Throw Error invalid_argument that names the flag.
VectorMetric parse_metric(const std::string& text);       // ip, cosine, l2
VectorCode parse_code(const std::string& text);           // scalar, trellis
RerankStore parse_rerank_store(const std::string& text);  // none, f16, original
std::vector<int64_t> parse_ids(const std::string& text);  // "3,17,20-29"
int vector_threads(int flag);                             // 0: all that this process may use

std::string to_string(VectorMetric metric);
std::string to_string(RerankStore store);
std::string to_string(VectorCode code);

// What every result says of an index.
Json index_json(const VectorIndex& index);

}  // namespace kvasir::cli
