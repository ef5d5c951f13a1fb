// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace kvasir::test {

void write_bytes(const std::string& path, std::string_view bytes);
std::string read_bytes(const std::string& path);

// Calls `read` with the file cut to fewer and fewer bytes, `step` at a time; the file is empty at last.
void with_every_cut(const std::string& path, size_t step, const std::function<void(size_t size)>& read);

// Calls `read` with one bit of the file's first `bytes` changed at a time: every bit, or one in each byte.
enum class Bits { all, one_of_each_byte };
void with_every_flip(const std::string& path, size_t bytes, Bits bits, const std::function<void(size_t at)>& read);

}  // namespace kvasir::test
