// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "tests/host/tiny_gguf.h"

namespace kvasir::cli::test {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void redirect(const std::string& path, int flags, int target) {
  const int file = open(path.c_str(), flags, 0600);
  if (file < 0 || dup2(file, target) < 0) _exit(126);
}

}  // namespace

std::string Outcome::last_error_line() const {
  std::string text = err;
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

const std::string& program_cache() {
  static const kvasir::test::TemporaryFolder folder;
  static const std::string path = folder.file("cache");
  return path;
}

Outcome run_program(const std::string& program, const std::vector<std::string>& arguments, const std::string& input) {
  const kvasir::test::TemporaryFolder folder;
  std::ofstream(folder.file("in"), std::ios::binary) << input;
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const std::string in = folder.file("in"), out = folder.file("out"), err = folder.file("err");
  const std::string& cache = program_cache();
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    setenv("KVASIR_CACHE_DIR", cache.c_str(), 1);
    redirect(in, O_RDONLY, STDIN_FILENO);
    redirect(out, O_WRONLY | O_CREAT, STDOUT_FILENO);
    redirect(err, O_WRONLY | O_CREAT, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) throw std::runtime_error("waitpid failed");
  Outcome outcome;
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = read_file(out);
  outcome.err = read_file(err);
  return outcome;
}

}  // namespace kvasir::cli::test
