// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupt.h"

namespace kvasir::cli {
namespace {

volatile std::sig_atomic_t interrupt_seen = 0;

void on_interrupt(int) {
  interrupt_seen = 1;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupt_seen = 0;
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, &before_);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &before_, nullptr);
}

bool InterruptGuard::interrupted() const {
  return interrupt_seen != 0;
}

}  // namespace kvasir::cli
