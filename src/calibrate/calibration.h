// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// A calibration: the moments of one model over one text, and what is needed to make them again. Every fitted codec
// starts here, so one file serves them all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calibrate/moments.h"

namespace kvasir {

struct Calibration {
  std::string model;  // Model::fingerprint
  std::string name;   // the model's own name, for messages
  std::string text;   // what was read, in words
  std::string text_hash;
  int64_t tokens = 0;     // that were read, in windows
  int64_t positions = 0;  // that texts may begin at; fits know nothing of those beyond
  // Sums are over all of them (calibrate/position_average.h) and of keys without their turning mean; else windows were
  // read at some of them, and keys are summed as they are.
  bool averaged = false;
  int window = 0;            // tokens of one window, each a text of its own
  int sink = 0, recent = 0;  // 16-bit windows: tokens in them don't count (calibrate/window_moments.h)
  bool unfinished = false;   // what a run keeps while it reads; nothing can be fitted to it
  bool older = false;        // of a file that an earlier version wrote: fits are worse than they could be
  std::vector<LayerMoments> layers;

  bool operator==(const Calibration&) const = default;
};

// A safetensors file, written in one step. Matrices are stored as their lower triangles, in double.
void save_calibration(const Calibration& calibration, const std::string& path);
// Throws Error not_found, io, corrupt.
Calibration load_calibration(const std::string& path);

}  // namespace kvasir
