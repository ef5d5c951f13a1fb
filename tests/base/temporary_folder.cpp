// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/base/temporary_folder.h"

#include <stdlib.h>

#include <stdexcept>
#include <system_error>

namespace kvasir::test {

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "kvasir_test_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("can't make a temporary folder");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace kvasir::test
