// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The tasks of a suite beside kld, each one cell for a method: which settings of eval/*_task.h they run with.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "eval/eval_setup.h"
#include "eval/suite.h"

namespace kvasir {

std::vector<std::string> suite_task_names();  // kld, needle, ...

// What changes a task's result beside model, method and text.
SuiteJson task_parameters(const std::string& task, const SuiteOptions& options);

// Tokens that a cell reads, roughly: generated ones count as the reading of twenty.
double task_reading(const std::string& task, const SuiteOptions& options);

// `setup` has model, method and threads. Throws Error: what the task throws.
SuiteJson run_suite_task(const std::string& task, const SuiteOptions& options, EvalSetup setup);

}  // namespace kvasir
