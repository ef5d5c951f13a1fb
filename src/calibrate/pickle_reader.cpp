// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/pickle_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <map>
#include <string_view>
#include <utility>

#include "kvasir/error.h"

namespace kvasir {
namespace {

// Python's pickletools names them; the protocol is 2.
enum Opcode : uint8_t {
  kProto = 0x80,
  kStop = '.',
  kMark = '(',
  kEmptyDict = '}',
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewFalse = 0x89,
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kBinUnicode = 'X',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kGlobal = 'c',
  kReduce = 'R',
  kBinPersId = 'Q',
  kSetItem = 's',
  kSetItems = 'u',
};

constexpr size_t kMaxStack = 4096;  // Python sets the items of a dictionary a thousand at a time
constexpr size_t kMaxMemo = 65536;
constexpr size_t kMaxTuple = 8;    // _rebuild_tensor_v2 has six arguments
constexpr int kMaxTupleDepth = 2;  // shape and strides among the arguments
constexpr int kMaxDictDepth = 3;   // file, layers, layer

constexpr std::array<std::pair<std::string_view, PickleGlobal>, 3> kGlobals = {{
    {"collections OrderedDict", PickleGlobal::ordered_dict},
    {"torch._utils _rebuild_tensor_v2", PickleGlobal::rebuild_tensor},
    {"torch FloatStorage", PickleGlobal::float_storage},
}};

std::string printable(std::string_view text) {
  std::string shown(text.substr(0, 80));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return shown;
}

class Walk {
 public:
  Walk(std::span<const std::byte> pickle, const std::string& source) : pickle_(pickle), source_(source) {}

  PickleValue run() {
    if (pickle_.size() > kMaxPickleBytes)
      throw Error(ErrorCode::unsupported, fmt::format("{} has a pickle of {} bytes; a rotation file's has at most {}",
                                                      source_, pickle_.size(), kMaxPickleBytes));
    if (byte() != kProto || byte() != 2) refuse("isn't one of protocol 2");
    for (;;) {
      start_ = at_;
      const uint8_t opcode = byte();
      if (opcode == kStop) break;
      step(opcode);
    }
    if (at_ != pickle_.size()) fail("goes on behind its end");
    if (stack_.size() != 1 || !marks_.empty()) fail("ends with something else than one value");
    return std::move(stack_.front());
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw Error(ErrorCode::corrupt, fmt::format("{} has a broken pickle: it {} (byte {})", source_, what, start_));
  }
  [[noreturn]] void refuse(std::string_view what) const {
    throw Error(ErrorCode::unsupported,
                fmt::format("{} isn't a rotation file: its pickle {} at byte {}", source_, what, start_));
  }

  std::string_view text(size_t length) {
    if (length > pickle_.size() - at_) fail("is cut off");
    const std::string_view text(reinterpret_cast<const char*>(pickle_.data()) + at_, length);
    at_ += length;
    return text;
  }
  template <typename Number>
  Number number() {
    Number number;
    std::memcpy(&number, text(sizeof number).data(), sizeof number);
    return number;
  }
  uint8_t byte() { return number<uint8_t>(); }

  // A name of GLOBAL ends with a line feed.
  std::string_view line() {
    const std::string_view rest(reinterpret_cast<const char*>(pickle_.data()) + at_, pickle_.size() - at_);
    const size_t length = rest.find('\n');
    if (length == rest.npos) fail("is cut off");
    at_ += length + 1;
    return rest.substr(0, length);
  }

  void push(PickleValue value) {
    if (stack_.size() == kMaxStack) refuse("holds more values at once than a rotation file's");
    stack_.push_back(std::move(value));
  }
  // Values under the last mark belong to what was begun before it.
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleValue pop() {
    if (stack_.size() <= floor()) fail("takes a value that isn't there");
    PickleValue value = std::move(stack_.back());
    stack_.pop_back();
    return value;
  }
  PickleValue pop(PickleKind kind, std::string_view expected) {
    PickleValue value = pop();
    if (value.kind != kind) refuse(fmt::format("has something else than {}", expected));
    return value;
  }
  std::vector<PickleValue> pop_to_mark() {
    if (marks_.empty()) fail("ends a list that it never began");
    const auto first = stack_.begin() + ptrdiff_t(marks_.back());
    std::vector<PickleValue> items(std::make_move_iterator(first), std::make_move_iterator(stack_.end()));
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return items;
  }

  void step(uint8_t opcode) {
    switch (opcode) {
      case kMark:
        if (marks_.size() == kMaxStack) refuse("begins more lists than a rotation file's");
        marks_.push_back(stack_.size());
        return;
      case kEmptyDict: return push_dict();
      case kEmptyTuple: return push_tuple({});
      case kTuple: return push_tuple(pop_to_mark());
      case kTuple1:
      case kTuple2:
      case kTuple3: return push_last(size_t(opcode - kTuple1) + 1);
      case kNewFalse: return push(PickleValue(PickleKind::no));
      case kBinInt: return push_number(number<int32_t>());
      case kBinInt1: return push_number(byte());
      case kBinInt2: return push_number(number<uint16_t>());
      case kBinUnicode: return push_text(number<uint32_t>());
      case kBinPut: return put(byte());
      case kLongBinPut: return put(number<uint32_t>());
      case kBinGet: return get(byte());
      case kLongBinGet: return get(number<uint32_t>());
      case kGlobal: return push_global();
      case kReduce: return reduce();
      case kBinPersId: return push_storage();
      case kSetItem: {
        PickleValue value = pop(), key = pop();
        return set_item(std::move(key), std::move(value));
      }
      case kSetItems: {
        std::vector<PickleValue> items = pop_to_mark();
        if (items.size() % 2 != 0) fail("sets a key without a value");
        for (size_t i = 0; i < items.size(); i += 2) set_item(std::move(items[i]), std::move(items[i + 1]));
        return;
      }
      default: refuse(fmt::format("has the opcode 0x{:02x}, which no such file has,", opcode));
    }
  }

  void push_number(int64_t number) {
    PickleValue value(PickleKind::number);
    value.number = number;
    push(std::move(value));
  }
  void push_text(size_t length) {
    if (length > kMaxPickleText) refuse("has a text longer than any of a rotation file");
    PickleValue value(PickleKind::text);
    value.text = text(length);
    push(std::move(value));
  }
  void push_dict() {
    PickleValue value(PickleKind::dict);
    value.dict = std::make_shared<PickleDict>();
    push(std::move(value));
  }

  void push_tuple(std::vector<PickleValue> items) {
    if (items.size() > kMaxTuple) refuse("has a tuple longer than any of a rotation file");
    int depth = 1;
    for (const PickleValue& item : items) {
      if (item.kind == PickleKind::dict) refuse("has a dictionary in a tuple");
      if (item.kind == PickleKind::tuple) depth = std::max(depth, item.depth + 1);
    }
    if (depth > kMaxTupleDepth) refuse("has tuples inside each other");
    PickleValue value(PickleKind::tuple);
    value.tuple = std::make_shared<const std::vector<PickleValue>>(std::move(items));
    value.depth = depth;
    push(std::move(value));
  }
  void push_last(size_t count) {
    std::vector<PickleValue> items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    push_tuple(std::move(items));
  }

  void put(size_t slot) {
    if (stack_.size() <= floor()) fail("remembers a value that isn't there");
    if (memo_.size() >= kMaxMemo) refuse("remembers more values than a rotation file's");
    const PickleValue& value = stack_.back();
    // A dictionary in two places could hold itself. Such files have each in one place.
    memo_[slot] = value.kind == PickleKind::dict ? PickleValue(PickleKind::dict) : value;
  }
  void get(size_t slot) {
    const auto found = memo_.find(slot);
    if (found == memo_.end()) fail("recalls a value that it never remembered");
    if (found->second.kind == PickleKind::dict) refuse("uses a dictionary twice");
    push(found->second);
  }

  void push_global() {
    const std::string_view module = line(), name = line();
    const std::string full = fmt::format("{} {}", module.substr(0, 80), name.substr(0, 80));
    for (const auto& [known, global] : kGlobals) {
      if (known != full) continue;
      PickleValue value(PickleKind::global);
      value.global = global;
      return push(std::move(value));
    }
    refuse(fmt::format("asks for {}.{}, which no such file needs,", printable(module), printable(name)));
  }

  // ('storage', FloatStorage, key, location, numbers)
  void push_storage() {
    using Kind = PickleKind;
    const PickleValue id = pop(Kind::tuple, "the tuple of a storage");
    const std::vector<PickleValue>& items = *id.tuple;
    if (!are(items, {Kind::text, Kind::global, Kind::text, Kind::text, Kind::number}) || items[0].text != "storage" ||
        items[1].global != PickleGlobal::float_storage || items[4].number < 0)
      refuse("describes a storage otherwise than torch.save");
    PickleValue value(Kind::storage);
    value.text = items[2].text;
    value.number = items[4].number;
    push(std::move(value));
  }

  void reduce() {
    using Kind = PickleKind;
    const PickleValue arguments = pop(Kind::tuple, "a tuple of arguments");
    const PickleGlobal function = pop(Kind::global, "a function's name").global;
    const std::vector<PickleValue>& items = *arguments.tuple;
    if (function == PickleGlobal::ordered_dict && items.empty()) return push(PickleValue(Kind::hooks));
    if (function != PickleGlobal::rebuild_tensor ||
        !are(items, {Kind::storage, Kind::number, Kind::tuple, Kind::tuple, Kind::no, Kind::hooks}))
      refuse("calls a function otherwise than torch.save");
    PickleTensor tensor;
    tensor.storage = {items[0].text, items[0].number};
    tensor.offset = items[1].number;
    tensor.shape = extents(*items[2].tuple);
    tensor.strides = extents(*items[3].tuple);
    PickleValue value(Kind::tensor);
    value.tensor = std::make_shared<const PickleTensor>(std::move(tensor));
    push(std::move(value));
  }
  static bool are(const std::vector<PickleValue>& values, std::initializer_list<PickleKind> kinds) {
    return std::equal(values.begin(), values.end(), kinds.begin(), kinds.end(),
                      [](const PickleValue& value, PickleKind kind) { return value.kind == kind; });
  }
  std::vector<int64_t> extents(const std::vector<PickleValue>& values) const {
    std::vector<int64_t> numbers;
    for (const PickleValue& value : values) {
      if (value.kind != PickleKind::number) refuse("has a tensor whose shape or strides are no numbers");
      numbers.push_back(value.number);
    }
    return numbers;
  }

  void set_item(PickleValue key, PickleValue value) {
    if (stack_.size() <= floor()) fail("sets items of a dictionary that isn't there");
    PickleValue& owner = stack_.back();
    if (owner.kind != PickleKind::dict) refuse("sets items of something else than a dictionary");
    if (key.kind != PickleKind::number && key.kind != PickleKind::text)
      refuse("has a key that is neither a text nor a number");
    if (value.kind == PickleKind::dict) owner.depth = std::max(owner.depth, value.depth + 1);
    if (owner.depth > kMaxDictDepth) refuse("has more dictionaries inside each other than a rotation file's");
    if (owner.dict->keys.size() == kMaxStack) refuse("has a dictionary larger than any of a rotation file");
    owner.dict->keys.push_back(std::move(key));
    owner.dict->values.push_back(std::move(value));
  }

  std::span<const std::byte> pickle_;
  const std::string& source_;
  size_t at_ = 0, start_ = 0;
  std::vector<PickleValue> stack_;
  std::vector<size_t> marks_;
  std::map<size_t, PickleValue> memo_;
};

}  // namespace

PickleValue read_tensor_pickle(std::span<const std::byte> pickle, const std::string& source) {
  return Walk(pickle, source).run();
}

}  // namespace kvasir
