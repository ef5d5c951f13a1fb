// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace kvasir::cli {

// While one of these lives, the first Ctrl-C only sets a flag, so that what runs can end cleanly; the second one ends
// the program as ever. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  bool interrupted() const;

 private:
  struct sigaction before_ {};
};

}  // namespace kvasir::cli
