// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Tables on stdout: the first column to the left, the others to the right, each as wide as it has to be.
#pragma once

#include <string>
#include <vector>

namespace kvasir::cli {

// The first row is the head.
std::string text_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace kvasir::cli
