// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <llama-cpp.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <utility>

#include "host/geometry.h"
#include "host/llama_log.h"
#include "host/loaded_model.h"
#include "host/model_fingerprint.h"
#include "host/supported_models.h"
#include "kvasir/engine.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

void require_gguf(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw Error(ErrorCode::not_found, fmt::format("no file `{}`", path));
  if (!std::filesystem::is_regular_file(status)) {
    throw Error(ErrorCode::invalid_argument, fmt::format("`{}` isn't a file; name a GGUF file", path));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorCode::io, fmt::format("`{}` can't be opened for reading", path));
  std::array<char, 4> magic{};
  file.read(magic.data(), magic.size());
  if (file.gcount() != magic.size() || magic != std::array<char, 4>{'G', 'G', 'U', 'F'}) {
    throw Error(ErrorCode::corrupt,
                fmt::format("`{}` isn't a GGUF file: it doesn't start with the letters GGUF", path));
  }
}

bool on_progress(float progress, void* user_data) {
  const auto& call = *static_cast<const std::function<void(float)>*>(user_data);
  if (call) call(progress);
  return true;
}

// Why llama.cpp refused the file: a kind of model that Kvasir refuses anyway, one that llama.cpp doesn't know, or a
// damaged file.
[[noreturn]] void explain_failure(const std::string& path, const std::string& reason) {
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  if (const llama_model_ptr model{llama_model_load_from_file(path.c_str(), params)}) {
    require_causal_attention(model.get());
  }
  if (reason.find("unknown model architecture") != std::string::npos) {
    throw Error(ErrorCode::unsupported, fmt::format("`{}`: {}, so this llama.cpp can't run it", path, reason));
  }
  throw Error(ErrorCode::corrupt, fmt::format("`{}` is a damaged or incomplete GGUF file: {}", path,
                                              reason.substr(0, reason.find(", model is corrupted"))));
}

}  // namespace

llama_model_ptr load_llama_model(const std::string& path, bool with_weights,
                                 const std::function<void(float)>& progress) {
  start_llama();
  require_gguf(path);
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = 0;  // attend() reads keys and values in host memory
  params.progress_callback = on_progress;
  params.progress_callback_user_data = const_cast<std::function<void(float)>*>(&progress);
  if (!with_weights) {
    params.no_alloc = true;
    params.load_mode = LLAMA_LOAD_MODE_NONE;
  }
  clear_llama_error();
  llama_model_ptr model{llama_model_load_from_file(path.c_str(), params)};
  if (!model) explain_failure(path, llama_error());
  require_causal_attention(model.get());
  return model;
}

struct Model::Impl {
  llama_model_ptr model;
  std::string path;
  DryPassResult dry;
  std::string chat_template;
  std::once_flag fingerprint_once;
  std::string fingerprint;
};

Model::Model() : impl_(std::make_unique<Impl>()) {}
Model::~Model() = default;

std::shared_ptr<Model> Model::load(const std::string& path, std::function<void(float)> progress) {
  std::shared_ptr<Model> model(new Model());
  Impl& impl = *model->impl_;
  impl.path = path;
  impl.model = load_llama_model(path, true, progress);
  impl.dry = dry_pass(impl.model.get());
  if (const char* text = llama_model_chat_template(impl.model.get(), nullptr)) impl.chat_template = text;
  return model;
}

llama_model* Model::handle() const {
  return impl_->model.get();
}
const llama_vocab* Model::vocab() const {
  return llama_model_get_vocab(handle());
}
const std::string& Model::path() const {
  return impl_->path;
}
const std::string& Model::fingerprint() const {
  std::call_once(impl_->fingerprint_once, [this] { impl_->fingerprint = model_fingerprint(impl_->path); });
  return impl_->fingerprint;
}
std::string Model::name() const {
  return metadata(handle(), "general.name").value_or(path());
}
std::string Model::architecture() const {
  return metadata(handle(), "general.architecture").value_or("unknown");
}
int Model::vocab_size() const {
  return llama_vocab_n_tokens(vocab());
}
int64_t Model::trained_context() const {
  return llama_model_n_ctx_train(handle());
}
const Geometry& Model::geometry() const {
  return impl_->dry.geometry;
}
bool Model::is_end(int32_t token) const {
  return llama_vocab_is_eog(vocab(), token);
}

std::string Model::description() const {
  std::array<char, 256> text{};
  llama_model_desc(handle(), text.data(), text.size());
  return text.data();
}

int32_t Model::bos() const {
  const llama_token token = llama_vocab_bos(vocab());
  return token == LLAMA_TOKEN_NULL ? -1 : token;
}

std::vector<int32_t> Model::tokenize(const std::string& text, bool add_special, bool parse_special) const {
  std::vector<int32_t> tokens(text.size() / 3 + 16);
  const auto run = [&] {
    return llama_tokenize(vocab(), text.data(), int32_t(text.size()), tokens.data(), int32_t(tokens.size()),
                          add_special, parse_special);
  };
  int32_t count = run();
  if (count == INT32_MIN) throw Error(ErrorCode::invalid_argument, "the text has more tokens than llama.cpp can count");
  if (count < 0) {
    tokens.resize(size_t(-count));
    count = run();
  }
  tokens.resize(size_t(count));
  return tokens;
}

std::string Model::piece(int32_t token) const {
  std::string text(32, '\0');
  int32_t size = llama_token_to_piece(vocab(), token, text.data(), int32_t(text.size()), 0, false);
  if (size < 0) {
    text.resize(size_t(-size));
    size = llama_token_to_piece(vocab(), token, text.data(), int32_t(text.size()), 0, false);
  }
  text.resize(size_t(size));
  return text;
}

std::string Model::apply_chat_template(std::span<const Message> messages, bool add_assistant) const {
  if (impl_->chat_template.empty()) return {};
  std::vector<llama_chat_message> turns;
  size_t characters = 256;
  for (const Message& message : messages) {
    turns.push_back({message.role.c_str(), message.content.c_str()});
    characters += 2 * message.content.size() + 64;
  }
  std::string text(characters, '\0');
  const auto run = [&] {
    return llama_chat_apply_template(impl_->chat_template.c_str(), turns.data(), turns.size(), add_assistant,
                                     text.data(), int32_t(text.size()));
  };
  int32_t size = run();
  if (size > int32_t(text.size())) {
    text.resize(size_t(size));
    size = run();
  }
  if (size < 0) {
    throw Error(ErrorCode::unsupported,
                "the chat template in this model isn't one that llama.cpp's built-in list knows; "
                "use `kvasir run` with a prompt that follows the model's own format");
  }
  text.resize(size_t(size));
  return text;
}

int64_t Model::context_limit() const {
  if (!impl_->dry.rope_depends_on_context) return 0;
  const std::optional<std::string> original = metadata(handle(), "{arch}.rope.scaling.original_context_length");
  return original ? std::stoll(*original) : trained_context();
}

}  // namespace kvasir
