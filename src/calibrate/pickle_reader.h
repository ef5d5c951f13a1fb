// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The pickles that torch.save writes for dictionaries of float tensors, and no others. A pickle is a program; this
// reader knows the 23 instructions that such a file has and three names, gives their results as data, and refuses
// everything else. It calls nothing and its memory is bounded by the pickle's size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kvasir {

inline constexpr size_t kMaxPickleBytes = size_t(1) << 20;  // a file of 1000 layers has a quarter of it
inline constexpr size_t kMaxPickleText = 256;

enum class PickleGlobal : uint8_t { ordered_dict, rebuild_tensor, float_storage };

struct PickleStorage {
  std::string key;      // the archive's member data/<key>
  int64_t numbers = 0;  // floats in it
};

struct PickleTensor {
  PickleStorage storage = {};
  int64_t offset = 0;  // in numbers
  std::vector<int64_t> shape, strides;
};

struct PickleDict;

enum class PickleKind : uint8_t {
  number,
  no,  // False
  text,
  global,
  storage,
  tensor,
  hooks,  // the empty OrderedDict that every tensor carries
  tuple,
  dict,
};

// Of the fields only those of its kind are set. (Not a std::variant: GCC 12 takes the moves of one this large for reads
// of uninitialized memory.)
struct PickleValue {
  PickleValue() = default;
  explicit PickleValue(PickleKind kind) : kind(kind) {}

  PickleKind kind = PickleKind::number;
  int64_t number = 0;  // storage: of floats in it
  std::string text;    // storage: the archive's member data/<text>
  PickleGlobal global = PickleGlobal::ordered_dict;
  std::shared_ptr<const PickleTensor> tensor;
  std::shared_ptr<const std::vector<PickleValue>> tuple;
  std::shared_ptr<PickleDict> dict;  // the only pointer to it
  int depth = 1;                     // of tuples or dictionaries inside each other
};

// In the pickle's order, keys as often as they were set.
struct PickleDict {
  std::vector<PickleValue> keys, values;
};

// `source` is what messages call the file, for example "`k.pt`". Throws Error unsupported for an instruction, a name or
// a combination that isn't in such files, corrupt for a pickle that is cut off or contradicts itself; both say where.
PickleValue read_tensor_pickle(std::span<const std::byte> pickle, const std::string& source);

}  // namespace kvasir
