// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "kvasir/error.h"

namespace kvasir::cli {

void note(std::string_view line) {
  fmt::print(stderr, "{}\n", line);
}

void print_json(const Json& object) {
  const std::string text = object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw Error(ErrorCode::io, "the result can't be written to stdout");
}

std::string format_bytes(size_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  double value = double(bytes);
  int unit = 0;
  for (; value >= 999.5 && unit < 4; ++unit) value /= 1000;
  return unit == 0 ? fmt::format("{} B", bytes)
                   : fmt::format("{:.{}f} {}", value,
                                 value < 9.995   ? 2
                                 : value < 99.95 ? 1
                                                 : 0,
                                 kUnits[unit]);
}

ProgressBar::ProgressBar(std::string label, int64_t total)
    : label_(std::move(label)), total_(std::max<int64_t>(1, total)), shown_(isatty(STDERR_FILENO) == 1) {}

void ProgressBar::set(int64_t done) {
  const auto now = std::chrono::steady_clock::now();
  if (!shown_ || now < next_draw_) return;
  next_draw_ = now + std::chrono::milliseconds(100);
  constexpr int kWidth = 30;
  const double share = std::clamp(double(done) / double(total_), 0.0, 1.0);
  const int filled = int(share * kWidth);
  fmt::print(stderr, "\r{} [{:#<{}}{:.<{}}] {:3.0f} %\033[K", label_, "", filled, "", kWidth - filled, 100 * share);
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::clear() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  drawn_ = false;
}

size_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return size_t(usage.ru_maxrss) * 1024;  // Linux counts in kB
}

}  // namespace kvasir::cli
