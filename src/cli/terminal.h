// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What commands print, and where: results to stdout, everything else to stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kvasir::cli {

using Json = nlohmann::ordered_json;

// One line on stderr.
void note(std::string_view line);

// The one object of --json on stdout. Bytes that aren't UTF-8 (a text cut inside a character) become U+FFFD.
void print_json(const Json& object);

std::string format_bytes(size_t bytes);  // "12.3 MB", decimal units as in file managers

// A bar on stderr, only where that is a terminal. Clears itself when done.
class ProgressBar {
 public:
  ProgressBar(std::string label, int64_t total);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  void set(int64_t done);
  void clear();

 private:
  std::string label_;
  int64_t total_;
  bool shown_, drawn_ = false;
  std::chrono::steady_clock::time_point next_draw_{};
};

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Largest resident memory of this process so far, in bytes.
size_t peak_resident_bytes();

}  // namespace kvasir::cli
