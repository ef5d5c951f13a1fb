// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/child_process.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "kvasir/error.h"

namespace kvasir::cli {
namespace {

constexpr const char* kError = "child_error";  // {kError: message, "code": ErrorCode} instead of a result

[[noreturn]] void run_child(int to_parent, const std::function<Json()>& work) {
  Json result;
  const auto failed = [](const char* message, ErrorCode code) { return Json{{kError, message}, {"code", int(code)}}; };
  try {
    result = work();
  } catch (const Error& error) {
    result = failed(error.what(), error.code());
  } catch (const std::bad_alloc&) {
    result = failed("the machine's memory is spent", ErrorCode::out_of_memory);
  } catch (const std::exception& error) {
    result = failed(error.what(), ErrorCode::internal);
  }
  const std::string text = result.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(to_parent, text.data() + done, text.size() - done);
    if (count < 0 && errno != EINTR) break;  // the parent is gone
    if (count > 0) done += size_t(count);
  }
  ::_exit(0);  // the parent's buffers and destructors are not the child's to flush and run
}

std::string read_all(int from_child) {
  std::string text;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t count = ::read(from_child, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(buffer.data(), size_t(count));
  }
}

}  // namespace

Json in_child_process(const std::function<Json()>& work) {
  std::array<int, 2> ends;
  if (::pipe(ends.data()) != 0)
    throw Error(ErrorCode::io, fmt::format("no pipe to a child process: {}", std::strerror(errno)));
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    run_child(ends[1], work);
  }
  ::close(ends[1]);
  const std::string text = child > 0 ? read_all(ends[0]) : std::string();
  ::close(ends[0]);
  if (child < 0) throw Error(ErrorCode::io, fmt::format("no child process: {}", std::strerror(errno)));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status))
    throw Error(ErrorCode::internal, fmt::format("a child process died of signal {}", WTERMSIG(status)));
  Json result = Json::parse(text, nullptr, false);
  if (result.is_discarded()) throw Error(ErrorCode::internal, "a child process ended without a result");
  if (result.is_object() && result.contains(kError))
    throw Error(ErrorCode(result["code"].get<int>()), result[kError].get<std::string>());
  return result;
}

}  // namespace kvasir::cli
