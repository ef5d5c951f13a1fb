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
    const auto known =
        std::find_if(kLongNames.begin(), kLongNames.end(), [&](const auto& n) { return n.first == value; });
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

// The command that the line got to, by its whole name, and what is wrong there in the program's own words.
struct Place {
  std::string name;
  const CLI::App* app;
};

Place deepest_command(const CLI::App& program) {
  Place place{program.get_name(), &program};
  while (!place.app->get_subcommands().empty()) {
    place.app = place.app->get_subcommands().front();
    place.name += " " + place.app->get_name();
  }
  return place;
}

// The parser only says that a subcommand is required, even where there is one that it doesn't know.
std::string explain(const CLI::ParseError& error, const Place& place) {
  const std::vector<const CLI::App*> known = place.app->get_subcommands([](const CLI::App*) { return true; });
  const bool incomplete = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !known.empty();
  if (!incomplete) return error.what();
  std::string names;
  for (const CLI::App* command : known) names += (names.empty() ? "" : ", ") + command->get_name();
  const std::vector<std::string> rest = place.app->remaining();
  return rest.empty() ? fmt::format("name a command: {}", names)
                      : fmt::format("`{}` is no command or flag here; the commands are {}", rest.front(), names);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App program("Long context in a fraction of the memory: GGUF models over a compressed KV cache", "kvasir");
  program.set_version_flag("--version", "kvasir " KVASIR_VERSION);
  program.require_subcommand(1);
  kvasir::cli::add_run(program);
  kvasir::cli::add_chat(program);
  kvasir::cli::add_session(program);
  kvasir::cli::add_plan(program);
  kvasir::cli::add_eval(program);
  kvasir::cli::add_report(program);
  kvasir::cli::add_calibrate(program);
  kvasir::cli::add_tune(program);
  kvasir::cli::add_distort(program);
  kvasir::cli::add_bench(program);
  kvasir::cli::add_vector(program);
  kvasir::cli::add_demo(program);
  try {
    program.parse(arguments(argc, argv));
    return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);  // --help, --version
    const Place place = deepest_command(program);
    return fail(fmt::format("{}; see `{} --help`", explain(error, place), place.name), kBadArguments);
  } catch (const kvasir::Error& error) {
    return fail(error.what(), error.code() == kvasir::ErrorCode::invalid_argument ? kBadArguments : kFailure);
  } catch (const std::bad_alloc&) {
    return fail("the machine's memory is spent; choose a smaller -c or --kv", kFailure);
  } catch (const std::exception& error) {
    return fail(error.what(), kFailure);
  }
}
