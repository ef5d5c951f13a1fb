// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Files as torch.save writes them, byte for byte in the pickle, for what a rotation file holds; and their ruins.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/rotation_set.h"

namespace kvasir::test {

// Instructions of a pickle of protocol 2. Texts and names are remembered and recalled as Python does it.
class PickleWriter {
 public:
  PickleWriter() { bytes_ = "\x80\x02"; }

  void raw(std::string_view bytes) { bytes_ += bytes; }
  void number(int64_t value);
  void text(const std::string& value);
  void global(const std::string& module, const std::string& name);
  void remember();  // the value on top, in a slot of its own
  // A tensor of float32 whose storage is data/<key>.
  void tensor(int64_t key, int64_t storage_numbers, int64_t offset, const std::vector<int64_t>& shape,
              const std::vector<int64_t>& strides);
  std::string finish() { return bytes_ + "."; }

 private:
  bool recall(const std::string& what);
  void tuple(const std::vector<int64_t>& numbers);

  std::string bytes_;
  std::map<std::string, int> slots_;
  int next_ = 0;
};

struct ZipMember {
  std::string name, bytes;
  bool compressed = false;
};

struct TorchFile {
  std::string stem = "k_rotation";
  std::vector<ZipMember> members;  // names behind the stem

  std::string& operator[](std::string_view name);  // of a member's bytes; makes it
  void remove(std::string_view name);
  void write(const std::string& path) const;
};

struct ZooVariant {
  bool text_keys = false;
  int format_version = 0;        // 0: as the set says
  std::string grouping = {};     // "": as the set says
  bool transposed = false;       // strides of a transposed view
  int64_t offset = 0;            // of every rotation in its storage
  int64_t claimed_numbers = -1;  // of every storage, in place of the truth
  std::string extra_key = {};    // one more entry of the file
};

TorchFile zoo_file(const RotationSet& set, const ZooVariant& variant = {});

std::string float_bytes(const std::vector<float>& numbers);
}  // namespace kvasir::test
