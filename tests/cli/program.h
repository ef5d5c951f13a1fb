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

// The program's KVASIR_CACHE_DIR: a folder of this process, empty at first, so that no test reads or leaves anything in
// the user's.
const std::string& program_cache();

// Runs `program` with `arguments` and `input` on stdin; nothing goes through a shell.
Outcome run_program(const std::string& program, const std::vector<std::string>& arguments,
                    const std::string& input = {});

}  // namespace kvasir::cli::test
