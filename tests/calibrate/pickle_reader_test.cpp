// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/pickle_reader.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "kvasir/error.h"
#include "tests/calibrate/rotation_samples.h"
#include "tests/calibrate/torch_file.h"

namespace kvasir {
namespace {

using namespace std::string_literals;
using test::fault_of;
using test::PickleWriter;

std::string fault(const std::string& pickle) {
  return fault_of([&] { read_tensor_pickle(std::as_bytes(std::span(pickle)), "`x`"); });
}

// Behind the two bytes of the protocol, `body` and the end.
std::string pickle(const std::string& body) {
  return "\x80\x02" + body + ".";
}

std::string name(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}

TEST(PickleReader, GivesTensorsAsData) {
  PickleWriter writer;
  writer.raw("}");
  writer.remember();
  writer.text("rotation");
  writer.tensor(12, 70000, 3, {4, 8, 8}, {64, 8, 1});
  writer.raw("s");
  const std::string bytes = writer.finish();
  const PickleValue root = read_tensor_pickle(std::as_bytes(std::span(bytes)), "`x`");
  ASSERT_EQ(root.kind, PickleKind::dict);
  ASSERT_EQ(root.dict->keys.size(), 1u);
  EXPECT_EQ(root.dict->keys[0].text, "rotation");
  ASSERT_EQ(root.dict->values[0].kind, PickleKind::tensor);
  const PickleTensor& tensor = *root.dict->values[0].tensor;
  EXPECT_EQ(tensor.storage.key, "12");
  EXPECT_EQ(tensor.storage.numbers, 70000);
  EXPECT_EQ(tensor.offset, 3);
  EXPECT_EQ(tensor.shape, (std::vector<int64_t>{4, 8, 8}));
  EXPECT_EQ(tensor.strides, (std::vector<int64_t>{64, 8, 1}));
}

TEST(PickleReader, RefusesEveryOtherOpcode) {
  const std::string known = std::string("(.)}tKMJXqrhjcRQsu") + "\x85\x86\x87\x89";
  int refused = 0;
  for (int opcode = 0; opcode < 256; ++opcode) {
    if (known.find(char(opcode)) != known.npos) continue;
    const std::string found = fault(pickle("}" + std::string(1, char(opcode)) + std::string(8, '\0')));
    EXPECT_NE(found.find("has the opcode 0x"), std::string::npos) << opcode << found;
    EXPECT_NE(found.find("at byte 3"), std::string::npos) << opcode << found;
    ++refused;
  }
  EXPECT_EQ(refused, 256 - int(known.size()));
}

TEST(PickleReader, RefusesEveryOtherName) {
  for (const auto& [module, function] :
       std::vector<std::pair<std::string, std::string>>{{"os", "system"},
                                                        {"posix", "system"},
                                                        {"builtins", "eval"},
                                                        {"collections", "defaultdict"},
                                                        {"torch", "DoubleStorage"},
                                                        {"torch._utils", "_rebuild_tensor"},
                                                        {"torch._utils _rebuild_tensor_v2", ""},
                                                        {"torch", "FloatStorage "},
                                                        {"", ""}}) {
    const std::string found = fault(pickle(name(module, function) + "(X\x02\0\0\0lstR"s));
    EXPECT_NE(found.find("asks for " + module + "." + function), std::string::npos) << found;
    EXPECT_NE(found.find("at byte 2"), std::string::npos) << found;
  }
  EXPECT_EQ(fault(pickle(name("torch", "FloatStorage"))), "");
}

TEST(PickleReader, RefusesOtherUsesOfKnownNames) {
  const std::string ordered = name("collections", "OrderedDict"), storage = name("torch", "FloatStorage");
  const std::string rebuild = name("torch._utils", "_rebuild_tensor_v2");
  EXPECT_EQ(fault(pickle(ordered + ")R")), "");
  const std::string id = "X\x01\0\0\0"s + "0X\x03\0\0\0cpuK\x01tQ"s;
  EXPECT_EQ(fault(pickle("(X\x07\0\0\0storage"s + storage + id)), "");
  for (const std::string& body : std::vector<std::string>{
           ordered + "K\x01\x85R",                            // arguments
           storage + ")R",                                    // calls
           rebuild + ")R",                                    //
           ordered + "K\x01R",                                // neither tuple nor function
           "K\x01)R",                                         //
           ordered + ")RK\x01K\x02s",                         // items of an OrderedDict
           rebuild + "(K\x01K\x01))\x89" + ordered + ")RtR",  // a number for a storage
           storage + "Q",                                     //
           "K\x01\x85Q",                                      //
           "(X\x07\0\0\0storage"s + ordered + id,             //
           "(X\x07\0\0\0Storage"s + storage + id,             //
           "(X\x07\0\0\0storage"s + storage + "K\x01K\x01K\x01tQ",
       }) {
    EXPECT_NE(fault(pickle(body)), "") << body;
  }
}

TEST(PickleReader, RefusesWhatStandsNowhere) {
  for (const std::string& body : {"t"s, "u"s, "s"s, "R"s, "Q"s, "\x85"s, "q\0"s, "h\0"s, "(q\0t"s, "}(K\x01u"s,
                                  "K\x01K\x02K\x03s"s, "}K\x01(s"s, "K\x01K\x02"s, "}("s, ""s, "})."s}) {
    EXPECT_NE(fault(pickle(body)), "") << body;
  }
  EXPECT_NE(fault(pickle("}") + "}"), "");
  EXPECT_NE(fault("\x80\x03}.").find("protocol 2"), std::string::npos);
  EXPECT_NE(fault("}."), "");
  EXPECT_NE(fault(""), "");
}

// What would cost memory or the call stack, or hold itself.
TEST(PickleReader, IsBounded) {
  EXPECT_NE(fault(pickle("}q\0K\x01h\0s"s)).find("twice"), std::string::npos);
  std::string nested = "K\x01", dictionaries = "}";
  for (int i = 0; i < 100'000; ++i) nested += '\x85';
  EXPECT_NE(fault(pickle(nested)).find("tuples inside each other"), std::string::npos);
  for (int i = 0; i < 4; ++i) dictionaries += "K\x01}";
  EXPECT_NE(fault(pickle(dictionaries + "ssss")).find("dictionaries inside"), std::string::npos);
  EXPECT_NE(fault(pickle(std::string(100'000, '('))).find("lists"), std::string::npos);
  EXPECT_NE(fault(pickle(std::string(100'000, '}'))).find("at once"), std::string::npos);
  EXPECT_NE(fault(pickle("X\xff\xff\xff\xff"s)).find("text longer"), std::string::npos);
  EXPECT_NE(fault(pickle("(" + std::string(9, ')') + "t")).find("tuple longer"), std::string::npos);
  EXPECT_NE(fault(std::string(kMaxPickleBytes + 1, '}')).find("at most"), std::string::npos);
  std::string remembered = "}";
  for (int i = 0; i < 65537; ++i) remembered += 'r' + std::string(reinterpret_cast<const char*>(&i), 4);
  EXPECT_NE(fault(pickle(remembered)).find("remembers more"), std::string::npos);
}

// Every cut is an error; every changed bit an error or another pickle of the same kind.
TEST(PickleReader, DamageNeverHarms) {
  const std::string whole = test::zoo_file(test::sample_rotations({}))["data.pkl"];
  EXPECT_EQ(fault(whole), "");
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_NE(fault(whole.substr(0, size)), "") << size;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = whole;
      damaged[at] = char(damaged[at] ^ (1 << bit));
      fault(damaged);
    }
  }
}

}  // namespace
}  // namespace kvasir
