// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs the built program from outside, as a user does.
#pragma once

#include <string>
#include <vector>

namespace kvasir::cli::test {

struct Outcome {
  int status = -1;  // exit status; 128 + n if signal n ended it
  std::string out, err;

  std::string last_error_line() const;
};

// Runs `program` with `arguments` and `input` on stdin; nothing goes through a shell.
Outcome run_program(const std::string& program, const std::vector<std::string>& arguments,
                    const std::string& input = {});

}  // namespace kvasir::cli::test
