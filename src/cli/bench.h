// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The benchmarks under `kvasir bench`.
#pragma once

namespace CLI {
class App;
}

namespace kvasir::cli {

void add_bench_attention(CLI::App& bench);
void add_bench_end_to_end(CLI::App& bench);
void add_bench_turns(CLI::App& bench);

}  // namespace kvasir::cli
