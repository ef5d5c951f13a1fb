// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace kvasir {
namespace {

// What one worker does: takes the next index until none is left or a task failed.
class Work {
 public:
  Work(int count, const std::function<void(int, int)>& task) : count_(count), task_(task) {}

  void run(int worker) {
    for (int index = next_++; index < count_ && !failed_; index = next_++) {
      try {
        task_(index, worker);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!failed_.exchange(true)) error_ = std::current_exception();
      }
    }
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  const int count_;
  const std::function<void(int, int)>& task_;
  std::atomic<int> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace

void parallel_for(int count, int threads, const std::function<void(int, int)>& task) {
  if (std::min(threads, count) <= 1) {
    for (int index = 0; index < count; ++index) task(index, 0);
    return;
  }
  Work work(count, task);
#ifdef KVASIR_OPENMP
  // All threads, also for fewer tasks: a team that shrinks ends threads, and the next region, often ggml's, starts them
  // again.
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int worker = 0; worker < threads; ++worker) work.run(worker);
#else
  threads = std::min(threads, count);
  std::vector<std::jthread> team;
  for (int worker = 1; worker < threads; ++worker) team.emplace_back([&work, worker] { work.run(worker); });
  work.run(0);
  team.clear();
#endif
  work.rethrow();
}

}  // namespace kvasir
