// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// `eval suite`: models x methods x tasks into a folder, one JSON file for each cell, within a time budget. What the
// folder holds already isn't run again; what doesn't fit is listed as not run, with the reason.
//
//   DIR/suite.json           every cell with its status: done, not_run, unavailable (the method can't), failed
//   DIR/cells/<id>.json      what was measured, with the parameters it was measured under
//   DIR/windows/<id>.N.json  the positions of one window of a kld cell: what a later run adds windows to
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "eval/suite_methods.h"
#include "kvasir/engine.h"

namespace kvasir {

using SuiteJson = nlohmann::ordered_json;

struct SuiteOptions {
  std::vector<std::string> models;  // as in -m, the smallest first: in that order they share the budget
  std::vector<SuiteMethod> methods;
  std::vector<std::string> tasks = {"kld", "needle"};  // of suite_task_names(), in the order of their importance
  std::vector<int64_t> contexts = {2048, 4096};  // window lengths; a short one and one where windows matter little
  int windows = 4;                               // most windows of a kld cell
  std::string base = "native";                   // what kld compares with
  std::string text;                              // read by kld, filler of the other tasks
  std::string text_name;                         // for the report
  int samples = 2;                               // haystacks, chats, prompts of the other tasks
  uint64_t seed = 42;
  double budget_seconds = 0;  // 0: no limit
  int micro_batch = 512;
  int threads = 2;
  std::string processor;  // for the report
  std::string folder;     // DIR
  std::string program;    // name and version; results of another version don't count as present

  std::function<std::shared_ptr<Model>(const std::string& name)> load;
  std::function<void(const std::string&)> note;                                             // one line; may be empty
  std::function<void(const std::string& what, int64_t done, int64_t total)> progress = {};  // may be empty
};

std::vector<std::string> suite_task_names();

// Runs what is missing and returns suite.json.
// Throws Error: invalid_argument for unknown tasks and empty lists, io for the folder, what `load` throws.
SuiteJson run_suite(const SuiteOptions& options);

}  // namespace kvasir
