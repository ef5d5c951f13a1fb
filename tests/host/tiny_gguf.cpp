// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/host/tiny_gguf.h"

#include <ggml.h>
#include <gguf.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

namespace kvasir::test {
namespace {

constexpr size_t kTensorBytes = size_t(64) << 20;
constexpr int kExperts = 4;

std::string utf8(int code) {
  if (code < 0x80) return std::string(1, char(code));
  return {char(0xC0 | (code >> 6)), char(0x80 | (code & 0x3F))};
}

// The byte-level alphabet of GPT-2: printable bytes stand for themselves, the others for code points from 256 on.
std::vector<std::string> byte_alphabet() {
  std::vector<std::string> alphabet;
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    alphabet.push_back(utf8(printable ? byte : next++));
  }
  return alphabet;
}

class GgufWriter {
 public:
  explicit GgufWriter(uint64_t seed)
      : file_(gguf_init_empty(), gguf_free),
        tensors_(ggml_init({kTensorBytes, nullptr, false}), ggml_free),
        random_(seed) {}

  void text(const std::string& key, const std::string& value) {
    gguf_set_val_str(file_.get(), key.c_str(), value.c_str());
  }
  void number(const std::string& key, uint32_t value) { gguf_set_val_u32(file_.get(), key.c_str(), value); }
  void real(const std::string& key, float value) { gguf_set_val_f32(file_.get(), key.c_str(), value); }
  void flag(const std::string& key, bool value) { gguf_set_val_bool(file_.get(), key.c_str(), value); }

  void vocabulary() {
    std::vector<std::string> words = byte_alphabet();
    std::vector<int32_t> types(words.size(), 1);
    for (const char* special : {"<s>", "</s>", "<unk>"}) {
      words.emplace_back(special);
      types.push_back(3);
    }
    while (int(words.size()) < kTinyVocabulary) {
      words.push_back("<pad" + std::to_string(words.size()) + ">");
      types.push_back(5);
    }
    std::vector<const char*> pointers;
    for (const std::string& word : words) pointers.push_back(word.c_str());
    text("tokenizer.ggml.model", "gpt2");
    text("tokenizer.ggml.pre", "gpt-2");
    gguf_set_arr_str(file_.get(), "tokenizer.ggml.tokens", pointers.data(), pointers.size());
    gguf_set_arr_data(file_.get(), "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(), types.size());
    const char* merge = "a b";
    gguf_set_arr_str(file_.get(), "tokenizer.ggml.merges", &merge, 1);
    number("tokenizer.ggml.bos_token_id", 256);
    number("tokenizer.ggml.eos_token_id", 257);
    number("tokenizer.ggml.unknown_token_id", 258);
    flag("tokenizer.ggml.add_bos_token", true);
  }

  // Values around `mean` with the given deviation.
  float* tensor(const std::string& name, std::initializer_list<int64_t> shape, float mean, float deviation) {
    ggml_tensor* tensor = ggml_new_tensor(tensors_.get(), GGML_TYPE_F32, int(shape.size()), shape.begin());
    ggml_set_name(tensor, name.c_str());
    std::normal_distribution<float> normal(mean, deviation);
    float* values = static_cast<float*>(tensor->data);
    for (int64_t i = 0; i < ggml_nelements(tensor); ++i) values[i] = normal(random_);
    gguf_add_tensor(file_.get(), tensor);
    return values;
  }

  // [in, out], scaled so that the output's deviation is about `gain` times the input's.
  void matrix(const std::string& name, int64_t in, int64_t out, float gain = 1.0f) {
    tensor(name, {in, out}, 0.0f, gain / std::sqrt(float(in)));
  }

  void save(const std::string& path) {
    if (!gguf_write_to_file(file_.get(), path.c_str(), false)) throw std::runtime_error("can't write " + path);
  }

 private:
  std::unique_ptr<gguf_context, decltype(&gguf_free)> file_;
  std::unique_ptr<ggml_context, decltype(&ggml_free)> tensors_;
  std::mt19937_64 random_;
};

void write_metadata(const TinyModel& model, GgufWriter& file) {
  const std::string name(model.architecture), a = name + ".";
  file.text("general.architecture", name);
  file.text("general.name", "tiny " + name);
  file.number(a + "block_count", uint32_t(model.layers));
  file.number(a + "context_length", uint32_t(model.context));
  file.number(a + "embedding_length", uint32_t(model.embedding));
  file.number(a + "feed_forward_length", uint32_t(model.feed_forward));
  file.number(a + "attention.head_count", uint32_t(model.heads));
  file.number(a + "attention.head_count_kv", uint32_t(model.kv_heads));
  file.number(a + "attention.key_length", uint32_t(model.head_dim));
  file.number(a + "attention.value_length", uint32_t(model.head_dim));
  file.number(a + "rope.dimension_count", uint32_t(model.rotary > 0 ? model.rotary : model.head_dim));
  file.real(a + "rope.freq_base", 10000.0f);
  file.real(a + "attention.layer_norm_rms_epsilon", 1e-6f);
  file.real(a + "attention.layer_norm_epsilon", 1e-6f);
  if (model.window > 0) {
    file.number(a + "attention.sliding_window", uint32_t(model.window));
    file.number(a + "attention.sliding_window_pattern", uint32_t(model.window_period));
  }
  if (model.softcap > 0) file.real(a + "attn_logit_softcapping", model.softcap);
  if (model.architecture == "gemma2") file.real(a + "final_logit_softcapping", 30.0f);
  if (model.long_rope > 0) {
    file.text(a + "rope.scaling.type", "longrope");
    file.number(a + "rope.scaling.original_context_length", uint32_t(model.long_rope));
  }
  if (model.temperature > 0) {
    file.real(a + "attention.temperature_scale", model.temperature);
    file.number(a + "rope.scaling.original_context_length", uint32_t(model.context / 4));
  }
  if (model.architecture == "mpt") file.real(a + "attention.max_alibi_bias", 8.0f);
  if (model.architecture == "gpt-oss") {
    file.number(a + "expert_count", kExperts);
    file.number(a + "expert_used_count", 2);
    file.number(a + "expert_feed_forward_length", uint32_t(model.feed_forward));
  }
  if (!model.chat_template.empty()) file.text("tokenizer.chat_template", std::string(model.chat_template));
  file.vocabulary();
}

void write_experts(const TinyModel& model, const std::string& block, GgufWriter& file) {
  const int64_t n = model.embedding, f = model.feed_forward;
  file.matrix(block + "ffn_gate_inp.weight", n, kExperts);
  file.tensor(block + "ffn_gate_inp.bias", {kExperts}, 0.0f, 0.1f);
  for (const char* side : {"gate", "up"}) {
    file.tensor(block + "ffn_" + side + "_exps.weight", {n, f, kExperts}, 0.0f, 1.0f / std::sqrt(float(n)));
    file.tensor(block + "ffn_" + side + "_exps.bias", {f, kExperts}, 0.0f, 0.1f);
  }
  file.tensor(block + "ffn_down_exps.weight", {f, n, kExperts}, 0.0f, 1.0f / std::sqrt(float(f)));
  file.tensor(block + "ffn_down_exps.bias", {n, kExperts}, 0.0f, 0.1f);
}

void write_feed_forward(const TinyModel& model, const std::string& block, GgufWriter& file) {
  const int64_t n = model.embedding, f = model.feed_forward;
  file.tensor(block + "ffn_norm.weight", {n}, 1.0f, 0.1f);
  const bool gate_in_up = model.architecture == "glm4";
  if (model.architecture != "mpt" && !gate_in_up) file.matrix(block + "ffn_gate.weight", n, f);
  file.matrix(block + "ffn_up.weight", n, gate_in_up ? 2 * f : f);
  file.matrix(block + "ffn_down.weight", f, n);
}

void write_block(const TinyModel& model, int layer, GgufWriter& file) {
  const std::string block = "blk." + std::to_string(layer) + ".";
  const std::string_view kind = model.architecture;
  const int64_t n = model.embedding, q = int64_t(model.heads) * model.head_dim;
  const int64_t kv = int64_t(model.kv_heads) * model.head_dim;
  const bool gemma = kind == "gemma2" || kind == "gemma3", glm = kind == "glm4";
  // Score deviations well above 1: attention must look somewhere, or a wrong mask would hardly show.
  const float gain = 1.5f;

  file.tensor(block + "attn_norm.weight", {n}, 1.0f, 0.1f);
  if (kind == "mpt") {
    file.matrix(block + "attn_qkv.weight", n, q + 2 * kv, gain);
  } else {
    file.matrix(block + "attn_q.weight", n, q, gain);
    file.matrix(block + "attn_k.weight", n, kv, gain);
    file.matrix(block + "attn_v.weight", n, kv);
  }
  file.matrix(block + "attn_output.weight", q, n);
  if (kind == "qwen2" || kind == "gpt-oss") {
    file.tensor(block + "attn_q.bias", {q}, 0.0f, 1.0f);
    file.tensor(block + "attn_k.bias", {kv}, 0.0f, 3.0f);
    file.tensor(block + "attn_v.bias", {kv}, 0.0f, 0.5f);
  }
  if (kind == "qwen3" || kind == "gemma3") {
    for (const char* name : {"attn_q_norm.weight", "attn_k_norm.weight"}) {
      float* weights = file.tensor(block + name, {model.head_dim}, 1.2f, 0.2f);
      if (model.dead_pair) weights[0] = weights[model.head_dim / 2] = 0.0f;
    }
  }
  if (gemma || glm || kind == "gpt-oss") file.tensor(block + "post_attention_norm.weight", {n}, 1.0f, 0.1f);
  if (gemma || glm) file.tensor(block + "post_ffw_norm.weight", {n}, 1.0f, 0.1f);
  if (kind == "gpt-oss") {
    file.tensor(block + "attn_output.bias", {n}, 0.0f, 0.1f);
    file.tensor(block + "attn_sinks.weight", {model.heads}, 1.0f, 1.0f);
    write_experts(model, block, file);
  } else {
    write_feed_forward(model, block, file);
  }
}

}  // namespace

void write_tiny_gguf(const TinyModel& model, const std::string& path) {
  GgufWriter file(model.seed);
  write_metadata(model, file);
  file.tensor("token_embd.weight", {model.embedding, kTinyVocabulary}, 0.0f, 1.0f);
  file.tensor("output_norm.weight", {model.embedding}, 1.0f, 0.1f);
  if (model.architecture != "gemma2") file.matrix("output.weight", model.embedding, kTinyVocabulary, 2.0f);
  if (model.long_rope > 0) {
    file.tensor("rope_factors_long.weight", {model.head_dim / 2}, 4.0f, 0.5f);
    file.tensor("rope_factors_short.weight", {model.head_dim / 2}, 1.0f, 0.1f);
  }
  for (int layer = 0; layer < model.layers; ++layer) write_block(model, layer, file);
  file.save(path);
}

std::shared_ptr<Model> tiny_model(const TemporaryFolder& folder, const TinyModel& model) {
  const std::string path = folder.file("model.gguf");
  write_tiny_gguf(model, path);
  return Model::load(path);
}

void write_bare_gguf(const std::string& architecture, const std::map<std::string, uint32_t>& numbers,
                     const std::map<std::string, bool>& flags, const std::string& path) {
  GgufWriter file(0);
  file.text("general.architecture", architecture);
  file.vocabulary();
  for (const auto& [key, value] : numbers) file.number(key, value);
  for (const auto& [key, value] : flags) file.flag(key, value);
  file.save(path);
}

}  // namespace kvasir::test
