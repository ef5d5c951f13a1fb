// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Snapshots that aren't what they should be, or not for this cache: refused in one sentence, nothing touched.
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "cache/snapshot_file.h"
#include "snapshot_fixture.h"

namespace kvasir {
namespace {

class SnapshotDamage : public testing::Test {
 protected:
  SnapshotDamage() : stream_(small_layer(4, 2, 64), 300, 3), cache_(make("turbo3.5")) {
    const SequenceId sequence = cache_.create();
    stream_.feed(cache_, sequence, 0, 300, all_levels().back());
    save_sequence(cache_, sequence, record_of(300), path_);
    whole_ = file_bytes(path_);
  }
  Cache make(const std::string& kv) const { return one_layer_cache(stream_.layer, kv, 16, 64); }

  // The file with another header, under checksums that are right.
  void write_header(const std::function<void(nlohmann::json&)>& change,
                    const std::function<void(SnapshotPrefix&)>& change_prefix = {}) const {
    SnapshotPrefix prefix;
    std::memcpy(&prefix, whole_.data(), sizeof prefix);
    auto header = nlohmann::json::parse(whole_.substr(sizeof prefix, prefix.header_bytes));
    change(header);
    const std::string text = header.dump();
    std::string bytes = whole_;
    const size_t room = header["sections"][0]["offset"].get<size_t>() - sizeof prefix;
    ASSERT_LE(text.size(), room);
    bytes.replace(sizeof prefix, room, text + std::string(room - text.size(), '\0'));
    prefix.header_bytes = text.size();
    prefix.header_checksum = checksum(std::as_bytes(std::span(text)));
    if (change_prefix) change_prefix(prefix);
    prefix.checksum = checksum(std::as_bytes(std::span(&prefix, 1)).first(offsetof(SnapshotPrefix, checksum)));
    std::memcpy(bytes.data(), &prefix, sizeof prefix);
    write_bytes(path_, bytes);
  }

  const test::TemporaryFolder folder_;
  const std::string path_ = folder_.file("x.kvasir");
  const Stream stream_;
  Cache cache_;
  std::string whole_;
};

TEST_F(SnapshotDamage, CutOffAnywhere) {
  std::vector<size_t> lengths = {0, 1, 7, 63, 64, 65, whole_.size() - 1};
  for (size_t length = 4096; length < whole_.size(); length += 4096) lengths.push_back(length);
  for (size_t length : lengths) {
    write_bytes(path_, whole_.substr(0, length));
    expect_refused(cache_, path_, ErrorCode::corrupt);
  }
  write_bytes(path_, whole_ + std::string(4096, '\0'));
  expect_refused(cache_, path_, ErrorCode::corrupt);
  std::filesystem::remove(path_);
  expect_refused(cache_, path_, ErrorCode::not_found);
  std::filesystem::create_directory(path_);
  expect_refused(cache_, path_, ErrorCode::not_found);
}

TEST_F(SnapshotDamage, AFlippedBitAnywhere) {
  for (size_t byte = 0; byte < whole_.size(); byte += byte < 256 ? 1 : byte < 3000 ? 7 : 151) {
    std::string bytes = whole_;
    bytes[byte] = char(bytes[byte] ^ (1 << (byte % 8)));
    write_bytes(path_, bytes);
    expect_refused(cache_, path_, ErrorCode::corrupt);
    if (HasFailure()) FAIL() << "byte " << byte;
  }
}

TEST_F(SnapshotDamage, ABlockOfZerosAnywhere) {
  for (size_t first = 0; first < whole_.size(); first += 4096) {
    std::string bytes = whole_;
    bytes.replace(first, 4096, 4096, '\0');
    if (bytes == whole_) continue;
    write_bytes(path_, bytes);
    expect_refused(cache_, path_, ErrorCode::corrupt);
  }
}

TEST_F(SnapshotDamage, AnotherModelCodecOrWindow) {
  expect_refused(cache_, path_, ErrorCode::invalid_argument, "another model (a model, model-1) than this one (model-2)",
                 "model-2");
  Cache other = make("turbo4");
  expect_refused(other, path_, ErrorCode::invalid_argument, "--kv turbo3.5,turbo3.5");
  Cache values = make("turbo3.5,turbo3");
  expect_refused(values, path_, ErrorCode::invalid_argument, "holds the values of layer 0 as turbo3.5, this cache as");
  Cache option = make("turbo3.5:seed=9");
  expect_refused(option, path_, ErrorCode::invalid_argument, "seed=9");
  CacheOptions options = cache_.options();
  options.protect = false;
  Cache unprotected(Geometry{{stream_.layer}}, options);
  expect_refused(unprotected, path_, ErrorCode::invalid_argument, "mean=off");
  Cache sink = one_layer_cache(stream_.layer, "turbo3.5", 17, 64);
  expect_refused(sink, path_, ErrorCode::invalid_argument, "--sink 16 --recent 64, this cache has --sink 17");
  Cache recent = one_layer_cache(stream_.layer, "turbo3.5", 16, 65);
  expect_refused(recent, path_, ErrorCode::invalid_argument, "--recent 65");
  LayerGeometry shape = stream_.layer;
  shape.softcap = 20;
  Cache geometry = one_layer_cache(shape, "turbo3.5", 16, 64);
  expect_refused(geometry, path_, ErrorCode::invalid_argument, "softcap");
  Cache deeper(Geometry{{stream_.layer, stream_.layer}}, cache_.options());
  expect_refused(deeper, path_, ErrorCode::invalid_argument, "1 layers, this cache has 2");
}

TEST_F(SnapshotDamage, Versions) {
  const auto nothing = [](nlohmann::json&) {};
  write_header(nothing, [](SnapshotPrefix& prefix) { prefix.major = 2; });
  expect_refused(cache_, path_, ErrorCode::unsupported, "version 2.0");
  write_header([](nlohmann::json& header) { header["needs"].push_back("holograms"); });
  expect_refused(cache_, path_, ErrorCode::unsupported, "holograms");
  // A newer minor version, with keys that this one doesn't know.
  write_header(
      [](nlohmann::json& header) {
        header["more"] = 1;
        header["content"]["more"] = {1, 2};
        header["content"]["layers"][0]["more"] = "x";
      },
      [](SnapshotPrefix& prefix) { prefix.minor = 7; });
  EXPECT_EQ(cache_.length(restore_sequence(cache_, path_, "model-1").sequence), 300);
}

TEST_F(SnapshotDamage, HeadersThatContradictThemselves) {
  using Json = nlohmann::json;
  const std::vector<std::function<void(Json&)>> changes = {
      [](Json& content) { content["length"] = -1; },
      [](Json& content) { content["length"] = 10; },
      [](Json& content) { content["length"] = 1000000; },
      [](Json& content) { content["length"] = "long"; },
      [](Json& content) { content["layers"][0]["packed_pages"] = 4; },
      [](Json& content) { content["layers"][0]["dropped_pages"] = 1; },
      [](Json& content) { content["layers"][0]["lists"]["pages"][1] = 1; },
      [](Json& content) { content["layers"][0]["lists"]["pages"][1] = 1u << 30; },
      [](Json& content) { content["layers"][0]["lists"]["pages"].push_back(0); },
      [](Json& content) { content["layers"][0]["lists"].erase("pages"); },
      [](Json& content) { content["layers"][0]["sorted"] = false; },
      [](Json& content) { content["layers"].push_back(0); },
      [](Json& content) { content.erase("layers"); },
      [](Json& content) { content = 5; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    write_header([&](Json& header) { changes[i](header["content"]); });
    expect_refused(cache_, path_, ErrorCode::corrupt);
    if (HasFailure()) FAIL() << "change " << i;
  }
  write_header([](Json& header) { header["sections"][0]["bytes"] = 1u << 30; });
  expect_refused(cache_, path_, ErrorCode::corrupt);
  write_header([](Json& header) { header["sections"].erase(1); });
  expect_refused(cache_, path_, ErrorCode::corrupt);
}

}  // namespace
}  // namespace kvasir
