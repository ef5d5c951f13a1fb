// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir <command>: reads the command line and turns whatever goes wrong into one line and an exit status.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "kvasir/error.h"

namespace {

constexpr int kFailure = 1, kBadArguments = 2;

// llama.cpp's flags of several letters behind one dash, which the parser would read as several flags.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kLongNames = {{
    {"-ngl", "--n-gpu-layers"},
    {"-ctk", "--cache-type-k"},
    {"-ctv", "--cache-type-v"},
    {"-ub", "--ubatch-size"},
    {"-sys", "--system"},
}};

// In the reverse order that the parser wants.
std::vector<std::string> arguments(int count, char** values) {
  std::vector<std::string> reversed;
  for (int i = count - 1; i > 0; --i) {
    const std::string_view value = values[i];
    const auto known = std::find_if(kLongNames.begin(), kLongNames.end(), [&](const auto& n) { return n.first == value; });
    reversed.emplace_back(known == kLongNames.end() ? value : known->second);
  }
  return reversed;
}

int fail(std::string sentence, int status) {
  std::replace(sentence.begin(), sentence.end(), '\n', ' ');
  std::fflush(stdout);
  fmt::print(stderr, "kvasir: {}\n", sentence);
  return status;
}

std::string deepest_command(const CLI::App& app) {
  for (const CLI::App* sub : app.get_subcommands()) return app.get_name() + " " + deepest_command(*sub);
  return app.get_name();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App program("Long context in a fraction of the memory: GGUF models over a compressed KV cache", "kvasir");
  program.set_version_flag("--version", "kvasir " KVASIR_VERSION);
  program.require_subcommand(1);
  kvasir::cli::add_run(program);
  kvasir::cli::add_chat(program);
  kvasir::cli::add_plan(program);
  kvasir::cli::add_eval(program);
  kvasir::cli::add_distort(program);
  kvasir::cli::add_bench(program);
  kvasir::cli::add_demo(program);
  try {
    program.parse(arguments(argc, argv));
    return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);  // --help, --version
    return fail(fmt::format("{}; see `{} --help`", error.what(), deepest_command(program)), kBadArguments);
  } catch (const kvasir::Error& error) {
    return fail(error.what(), error.code() == kvasir::ErrorCode::invalid_argument ? kBadArguments : kFailure);
  } catch (const std::bad_alloc&) {
    return fail("the machine's memory is spent; choose a smaller -c or --kv", kFailure);
  } catch (const std::exception& error) {
    return fail(error.what(), kFailure);
  }
}
