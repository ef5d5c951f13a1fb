// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/torch_archive.h"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "calibrate/pickle_reader.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

constexpr uint64_t kMaxMembers = 4096;  // two for each layer, and six
constexpr size_t kMaxNote = 64;         // version, byteorder and the like
constexpr std::string_view kData = "data/";

// Besides data.pkl and the storages.
constexpr std::array<std::string_view, 5> kNotes = {"version", "byteorder", ".format_version", ".storage_alignment",
                                                    ".data/serialization_id"};

bool is_storage_key(std::string_view key) {
  return !key.empty() && key.size() <= 9 &&
         std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

void TorchArchive::Close::operator()(zip* archive) const {
  zip_discard(archive);
}

TorchArchive::TorchArchive(const std::string& path) : source_("`" + path + "`"), file_(path) {
  open();
  list_members();
  require_little_endian();
}

void TorchArchive::open() {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(file_.bytes().data(), file_.bytes().size(), 0, &error);
  if (source != nullptr) {
    archive_.reset(zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error));
    if (!archive_) zip_source_free(source);
  }
  const std::string what = zip_error_strerror(&error);
  zip_error_fini(&error);
  if (!archive_)
    throw Error(ErrorCode::corrupt,
                fmt::format("{} isn't a whole zip archive as torch.save writes it: {}", source_, what));
}

void TorchArchive::list_members() {
  const zip_int64_t count = zip_get_num_entries(archive_.get(), 0);
  if (count < 1 || uint64_t(count) > kMaxMembers)
    throw Error(ErrorCode::unsupported,
                fmt::format("{} has {} members; a rotation file has 1 to {}", source_, count, kMaxMembers));
  for (uint64_t index = 0; index < uint64_t(count); ++index) add_member(index);
  for (const char* needed : {"data.pkl", "version"}) {
    if (!members_.contains(needed))
      throw Error(ErrorCode::unsupported,
                  fmt::format("{} isn't a file of torch.save: it lacks the member {}", source_, needed));
  }
}

void TorchArchive::add_member(uint64_t index) {
  zip_stat_t found;
  zip_stat_init(&found);
  constexpr zip_uint64_t needed =
      ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if (zip_stat_index(archive_.get(), index, 0, &found) != 0 || (found.valid & needed) != needed)
    throw Error(ErrorCode::corrupt, fmt::format("{} has a member that can't be looked at", source_));
  const std::string_view path(found.name);
  const auto refuse = [&](std::string_view what) {
    throw Error(ErrorCode::unsupported,
                fmt::format("{} isn't a rotation file: its member {} {}", source_, path.substr(0, 80), what));
  };
  const size_t slash = path.find('/');
  if (slash == path.npos || slash == 0) refuse("lies in no folder");
  if (index == 0) stem_ = path.substr(0, slash);
  if (path.substr(0, slash) != stem_) refuse("lies in a second folder");
  const std::string name(path.substr(slash + 1));
  if (found.comp_method != ZIP_CM_STORE || found.encryption_method != ZIP_EM_NONE || found.size != found.comp_size)
    refuse("is compressed or encrypted");

  const bool storage = name.starts_with(kData) && is_storage_key(std::string_view(name).substr(kData.size()));
  const bool note = std::find(kNotes.begin(), kNotes.end(), name) != kNotes.end();
  if (!storage && !note && name != "data.pkl") refuse("is none of such a file");
  if (found.size > (storage ? file_.bytes().size() : note ? kMaxNote : kMaxPickleBytes)) refuse("is too large");
  if (!members_.emplace(name, Member{index, found.size}).second) refuse("is there twice");
  if (storage) storages_.emplace(name.substr(kData.size()), found.size);
}

void TorchArchive::require_little_endian() const {
  const auto text = [&](const char* name) {
    const std::vector<std::byte> bytes = read(name);
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  if (const std::string version = text("version"); version != "3\n" && version != "3")
    throw Error(ErrorCode::unsupported, fmt::format("{} is of another version of torch's format than 3", source_));
  if (members_.contains("byteorder") && text("byteorder") != "little")
    throw Error(ErrorCode::unsupported,
                fmt::format("{} has numbers in another byte order than little-endian", source_));
}

std::vector<std::byte> TorchArchive::read(const std::string& name) const {
  const Member& member = members_.at(name);
  std::vector<std::byte> bytes(member.bytes);
  zip_file_t* file = zip_fopen_index(archive_.get(), member.index, 0);
  const auto fail = [&] {
    throw Error(ErrorCode::corrupt, fmt::format("{} is damaged in its member {}", source_, name));
  };
  if (file == nullptr) fail();
  const zip_int64_t got = zip_fread(file, bytes.data(), bytes.size());
  std::byte behind{};
  // Only reading up to the end makes libzip compare the CRC.
  const zip_int64_t more = zip_fread(file, &behind, 1);
  const int closed = zip_fclose(file);
  if (got != zip_int64_t(bytes.size()) || more != 0 || closed != 0) fail();
  return bytes;
}

std::vector<float> TorchArchive::storage(const std::string& key) const {
  const auto found = storages_.find(key);
  if (found == storages_.end())
    throw Error(ErrorCode::corrupt, fmt::format("{} lacks the member data/{}", source_, key));
  if (found->second % sizeof(float) != 0)
    throw Error(ErrorCode::corrupt,
                fmt::format("{} has {} bytes in data/{}, which are no floats", source_, found->second, key));
  const std::vector<std::byte> bytes = read(std::string(kData) + key);
  std::vector<float> numbers(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

}  // namespace kvasir
