// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// How fast this machine reads memory: the roof over every decode step.
#pragma once

namespace kvasir::cli {

// Bytes a second of a plain sum over a buffer several times as large as all processor caches, with that many threads:
// the best of several passes.
double stream_read_bandwidth(int threads);

}  // namespace kvasir::cli
