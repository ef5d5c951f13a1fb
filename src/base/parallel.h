// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Fork and join over an index range. With OpenMP it runs on the very team that ggml uses between the same two graph
// parts: a pool of our own would fight ggml's spinning threads for the cores.
#pragma once

#include <functional>

namespace kvasir {

// Calls task(index, worker) for every index in [0, count), worker in [0, threads). Tasks are handed out one by one, so
// uneven ones balance; with OpenMP all threads take part, also in fewer tasks. An exception from a task is rethrown
// here after all workers stopped.
void parallel_for(int count, int threads, const std::function<void(int index, int worker)>& task);

}  // namespace kvasir
