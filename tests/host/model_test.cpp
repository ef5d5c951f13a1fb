// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "host/plan_geometry.h"
#include "kvasir/engine.h"
#include "kvasir/error.h"
#include "tests/host/tiny_gguf.h"

namespace kvasir {
namespace {

using test::TemporaryFolder;
using test::TinyModel;

// The error that loading `path` ends in.
std::pair<ErrorCode, std::string> load_error(const std::string& path) {
  try {
    Model::load(path);
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  ADD_FAILURE() << path << " loaded";
  return {ErrorCode::internal, ""};
}

void expect_error(const std::string& path, ErrorCode code, const std::string& part) {
  const auto [got, message] = load_error(path);
  EXPECT_EQ(int(got), int(code)) << message;
  EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

TEST(ModelFile, MissingFolderAndForeignFilesAreOneSentence) {
  const TemporaryFolder folder;
  expect_error(folder.file("none.gguf"), ErrorCode::not_found, "no file");
  expect_error(folder.file(""), ErrorCode::invalid_argument, "isn't a file");
  std::ofstream(folder.file("empty.gguf"));
  expect_error(folder.file("empty.gguf"), ErrorCode::corrupt, "isn't a GGUF file");
  std::mt19937 random(3);
  std::string bytes(50000, '\0');
  for (char& c : bytes) c = char(random());
  std::ofstream(folder.file("random.gguf"), std::ios::binary) << bytes;
  expect_error(folder.file("random.gguf"), ErrorCode::corrupt, "isn't a GGUF file");
  std::ofstream(folder.file("magic.gguf"), std::ios::binary) << "GGUF" << bytes;
  expect_error(folder.file("magic.gguf"), ErrorCode::corrupt, "damaged or incomplete");
}

TEST(ModelFile, TruncatedAnywhereIsCorrupt) {
  const TemporaryFolder folder;
  const std::string whole = folder.file("whole.gguf"), cut = folder.file("cut.gguf");
  test::write_tiny_gguf({}, whole);
  const auto size = std::filesystem::file_size(whole);
  for (const double part : {0.0001, 0.01, 0.05, 0.3, 0.9, 0.9999}) {
    std::filesystem::copy_file(whole, cut, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(cut, uintmax_t(double(size) * part));
    EXPECT_EQ(int(load_error(cut).first), int(ErrorCode::corrupt)) << part;
    EXPECT_THROW(geometry_from_gguf(cut), Error) << part;
  }
}

TEST(ModelFile, ModelsWithoutCausalAttentionAreRefusedByName) {
  const TemporaryFolder folder;
  const std::string path = folder.file("bare.gguf");
  test::write_bare_gguf("mamba", {}, {}, path);
  expect_error(path, ErrorCode::unsupported, "`mamba` is a recurrent model");
  test::write_bare_gguf("jamba", {}, {}, path);
  expect_error(path, ErrorCode::unsupported, "`jamba` is a hybrid model");
  test::write_bare_gguf("t5", {}, {}, path);
  expect_error(path, ErrorCode::unsupported, "`t5` is an encoder model");
  test::write_bare_gguf("dream", {}, {}, path);
  expect_error(path, ErrorCode::unsupported, "`dream` is a diffusion model");
  test::write_bare_gguf("bert", {}, {{"bert.attention.causal", false}}, path);
  expect_error(path, ErrorCode::unsupported, "`bert` is an embedding model");
  test::write_bare_gguf("qwen3", {{"qwen3.pooling_type", 3}}, {}, path);
  expect_error(path, ErrorCode::unsupported, "`qwen3` is an embedding model");
  test::write_bare_gguf(
      "deepseek2", {{"deepseek2.attention.kv_lora_rank", 512}, {"deepseek2.attention.key_length_mla", 192}}, {}, path);
  expect_error(path, ErrorCode::unsupported, "`deepseek2` is a model with multi-head latent attention");
  test::write_bare_gguf("nobody-knows-me", {}, {}, path);
  expect_error(path, ErrorCode::unsupported, "unknown model architecture: 'nobody-knows-me'");
}

TEST(ModelFile, AlibiIsRefusedByTheDryPass) {
  const TemporaryFolder folder;
  const std::string path = folder.file("mpt.gguf");
  test::write_tiny_gguf({.architecture = "mpt", .heads = 2, .kv_heads = 2, .head_dim = 32, .embedding = 64}, path);
  expect_error(path, ErrorCode::unsupported, "ALiBi");
  EXPECT_THROW(geometry_from_gguf(path), Error);
}

struct GeometryCase {
  TinyModel model;
  std::vector<int> windows;  // per layer
};

TEST(ModelGeometry, IsReadFromTheGraphAndAgreesWithThePlan) {
  const TemporaryFolder folder;
  const std::string path = folder.file("model.gguf");
  const std::vector<GeometryCase> cases = {
      {{.heads = 4, .kv_heads = 1}, {0, 0}},
      {{.heads = 3, .kv_heads = 3, .head_dim = 80}, {0, 0}},
      {{.architecture = "qwen2", .heads = 2, .kv_heads = 1, .head_dim = 96, .embedding = 192}, {0, 0}},
      {{.architecture = "qwen3", .head_dim = 128}, {0, 0}},
      {{.architecture = "gemma3", .layers = 4, .head_dim = 256, .window = 24, .window_period = 3}, {24, 24, 0, 24}},
      {{.architecture = "gemma3", .layers = 2, .window = 1000}, {1000, 0}},
      {{.architecture = "gemma2", .layers = 3, .window = 32, .softcap = 5.0f}, {32, 0, 32}},
      {{.architecture = "gpt-oss", .layers = 3, .window = 16}, {16, 0, 16}},
  };
  for (const auto& [tiny, windows] : cases) {
    SCOPED_TRACE(std::string(tiny.architecture) + " " + std::to_string(tiny.head_dim));
    test::write_tiny_gguf(tiny, path);
    const std::shared_ptr<Model> model = Model::load(path);
    Geometry geometry = model->geometry();
    ASSERT_EQ(geometry.layers.size(), windows.size());
    for (size_t i = 0; i < windows.size(); ++i) {
      LayerGeometry& layer = geometry.layers[i];
      EXPECT_EQ(layer.heads, tiny.heads);
      EXPECT_EQ(layer.kv_heads, tiny.kv_heads);
      EXPECT_EQ(layer.key_dim, tiny.head_dim);
      EXPECT_EQ(layer.value_dim, tiny.head_dim);
      EXPECT_EQ(layer.window, windows[i]) << i;
      EXPECT_EQ(layer.softcap, tiny.softcap);
      EXPECT_EQ(layer.sink_logits.size(), tiny.architecture == "gpt-oss" ? size_t(tiny.heads) : 0u);
      layer.sink_logits.clear();
    }
    EXPECT_EQ(geometry_from_gguf(path).layers, geometry.layers);
    EXPECT_EQ(model->architecture(), tiny.architecture);
    EXPECT_EQ(model->vocab_size(), test::kTinyVocabulary);
    EXPECT_EQ(model->trained_context(), tiny.context);
  }
}

TEST(ModelText, TokensSpellTheText) {
  const TemporaryFolder folder;
  test::write_tiny_gguf({}, folder.file("m.gguf"));
  const std::shared_ptr<Model> model = Model::load(folder.file("m.gguf"));
  const std::string text = "Kvasir, the wisest:\n\tgr\xC3\xBC\xC3\x9F dich!";
  const std::vector<int32_t> tokens = model->tokenize(text, true, false);
  ASSERT_FALSE(tokens.empty());
  EXPECT_EQ(tokens[0], model->bos());
  std::string spelled;
  for (size_t i = 1; i < tokens.size(); ++i) spelled += model->piece(tokens[i]);
  EXPECT_EQ(spelled, text);
  EXPECT_TRUE(model->is_end(257));
  EXPECT_FALSE(model->is_end(65));
  EXPECT_TRUE(model->apply_chat_template({}, true).empty());
}

TEST(ModelName, UnknownAndUnfetchedNamesSayWhatToDo) {
  const TemporaryFolder folder;
  ASSERT_EQ(setenv("KVASIR_CACHE_DIR", folder.file("").c_str(), 1), 0);
  const auto message = [](const std::string& name) -> std::string {
    try {
      return resolve_model(name);
    } catch (const Error& error) {
      EXPECT_EQ(int(error.code()), int(ErrorCode::not_found));
      return error.what();
    }
  };
  EXPECT_NE(message("smollm2").find("tools/fetch_model.py smollm2"), std::string::npos);
  EXPECT_NE(message("smollm2-f32").find("tools/fetch_model.py smollm2"), std::string::npos);
  EXPECT_NE(message("smollm3").find("smollm2, gemma3-270m"), std::string::npos);
  EXPECT_NE(message("./no.gguf").find("no file"), std::string::npos);
}

TEST(ModelName, TheF32CopyIsMadeOnce) {
  const TemporaryFolder folder;
  ASSERT_EQ(setenv("KVASIR_CACHE_DIR", folder.file("").c_str(), 1), 0);
  std::filesystem::create_directories(folder.file("models"));
  test::write_tiny_gguf({}, folder.file("models/smollm2.gguf"));
  int steps = 0;
  const auto count = [&](const std::string&) { ++steps; };
  const std::string copy = resolve_model("smollm2-f32", count);
  EXPECT_EQ(copy, resolve_model("smollm2-f32", count));
  EXPECT_EQ(steps, 1);
  EXPECT_EQ(resolve_model("smollm2"), folder.file("models/smollm2.gguf"));
  EXPECT_EQ(Model::load(copy)->geometry().layers, Model::load(folder.file("models/smollm2.gguf"))->geometry().layers);
  for (const auto& entry : std::filesystem::directory_iterator(folder.file("models"))) {
    EXPECT_EQ(entry.path().extension(), ".gguf");  // no partial copy is left
  }
}

}  // namespace
}  // namespace kvasir
