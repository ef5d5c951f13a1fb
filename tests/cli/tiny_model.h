// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// A tiny model and a text to read, and commands that have to succeed on them.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/cli/program.h"
#include "tests/host/tiny_gguf.h"

namespace kvasir::cli::test {

class TinyModelTest : public testing::Test {
 protected:
  TinyModelTest() {
    kvasir::test::write_tiny_gguf({}, file("tiny.gguf"));
    std::ofstream text(file("text.txt"));
    for (int i = 0; i < 60; ++i) text << "line " << i * i << " of many\n";
  }
  std::string file(const std::string& name) const { return folder_.file(name); }

  // What the command prints.
  std::string expect_success(const std::vector<std::string>& arguments) const {
    const Outcome outcome = run_program(KVASIR_PROGRAM, arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  }

 private:
  kvasir::test::TemporaryFolder folder_;
};

}  // namespace kvasir::cli::test
