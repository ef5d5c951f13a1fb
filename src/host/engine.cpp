// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <ggml.h>
#include <llama-cpp.h>

#include <algorithm>
#include <exception>
#include <map>
#include <set>
#include <utility>

#include "host/attention_node.h"
#include "host/fitted_codecs.h"
#include "host/llama_log.h"
#include "host/micro_batch.h"
#include "host/token_batch.h"
#include "kvasir/engine.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

int max_sequences(int micro_batch) {
  return std::min(micro_batch, int(llama_max_parallel_sequences()));
}

void check_options(const Model& model, const EngineOptions& options) {
  if (options.micro_batch < 1) throw Error(ErrorCode::invalid_argument, "the micro-batch must hold at least one token");
  if (options.threads < 1) throw Error(ErrorCode::invalid_argument, "-t must be at least 1");
  if (options.context < 1) throw Error(ErrorCode::invalid_argument, "-c must be at least 1 token");
  const int64_t limit = model.context_limit();
  const int64_t cells = (int64_t(options.micro_batch) + 255) / 256 * 256;  // as llama.cpp rounds its cache
  if (limit > 0 && std::max(options.context, cells) > limit) {
    throw Error(
        ErrorCode::unsupported,
        fmt::format("`{}` uses LongRoPE, whose factors for more than {} tokens llama.cpp picks only with a cache "
                    "of its own that long; choose -c {} or less (asked: {})",
                    model.architecture(), limit, limit, options.context));
  }
}

EngineOptions with_fits(const Model& model, EngineOptions options) {
  options.cache = with_fitted_codecs(std::move(options.cache), model);
  return options;
}

}  // namespace

struct Engine::Impl {
  Impl(std::shared_ptr<Model> model_, EngineOptions options_)
      : model(std::move(model_)),
        options(with_fits(*model, (check_options(*model, options_), std::move(options_)))),
        attention(AttentionOptions::from_environment(options.threads)),
        cache(model->geometry(), options.cache),
        batch(options.micro_batch),
        seen(model->geometry().layers.size()) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = uint32_t(options.micro_batch);  // llama.cpp rounds up to its own multiple
    params.n_batch = params.n_ubatch = uint32_t(options.micro_batch);
    params.n_seq_max = uint32_t(max_sequences(options.micro_batch));
    params.n_threads = params.n_threads_batch = options.threads;
    params.kv_unified = true;
    // A micro-batch is cleared as a whole, so a smaller cache for windowed layers would save nothing, and llama.cpp
    // could overwrite cells of the batch in it.
    params.swa_full = true;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    params.no_perf = true;
    params.cb_eval = on_node;
    params.cb_eval_user_data = this;
    clear_llama_error();
    context.reset(llama_init_from_model(model->handle(), params));
    if (!context) throw Error(ErrorCode::unsupported, "llama.cpp can't make a context: " + llama_error());
  }

  static bool on_node(ggml_tensor* tensor, bool ask, void* user_data) {
    Impl& self = *static_cast<Impl*>(user_data);
    if (ask) {
      if (!is_attention_node(tensor)) return false;
      // The result is overwritten, so the backend needn't compute it: nodes without this flag are passed over.
      tensor->flags &= ~GGML_TENSOR_FLAG_COMPUTE;
      return true;
    }
    if (self.error) return false;
    try {
      self.attend_node(tensor);
      return true;
    } catch (...) {  // must not cross llama.cpp's frames; run() throws it again
      self.error = std::current_exception();
      return false;
    }
  }

  void attend_node(ggml_tensor* tensor) {
    const AttentionNode node = read_attention_node(tensor);
    if (node.layer >= int(seen.size()) || seen[size_t(node.layer)] || node.tokens != batch.size()) {
      throw Error(ErrorCode::internal, fmt::format("unexpected attention node: layer {}, {} tokens of {}", node.layer,
                                                   node.tokens, batch.size()));
    }
    seen[size_t(node.layer)] = true;
    require_half_cache(node);
    const HeadsView q = buffers.q(node), k = buffers.k(node), v = buffers.v(node);
    float* const out = buffers.result(node);
    attend(cache, node.layer, q, k, v, spans, out, attention);
    if (options.observe) {
      const LayerGeometry& layer = cache.geometry().layers[size_t(node.layer)];
      options.observe(node.layer,
                      {q, k, v, {out, int64_t(layer.heads) * layer.value_dim, layer.value_dim}, int(node.tokens)});
    }
    buffers.store_result(node);
  }

  void check(std::span<const EngineSpan> request) {
    std::set<SequenceId> sequences;
    for (const EngineSpan& span : request) {
      if (const auto it = broken.find(span.sequence); it != broken.end()) {
        const std::string reason = it->second;
        broken.erase(it);
        throw Error(ErrorCode::internal,
                    fmt::format("sequence {} is empty: an earlier decode failed half way ({}); feed it again from its "
                                "first token",
                                span.sequence, reason));
      }
      if (span.tokens.empty()) throw Error(ErrorCode::invalid_argument, "a span holds no tokens");
      if (!sequences.insert(span.sequence).second) {
        throw Error(ErrorCode::invalid_argument, fmt::format("sequence {} is twice in one decode", span.sequence));
      }
      for (const int32_t token : span.tokens) {
        if (token < 0 || token >= model->vocab_size()) {
          throw Error(ErrorCode::invalid_argument,
                      fmt::format("token {} is outside the model's vocabulary of {}", token, model->vocab_size()));
        }
      }
      const int64_t length = cache.length(span.sequence), added = int64_t(span.tokens.size());
      if (length + added > options.context) {
        throw Error(ErrorCode::context_full,
                    fmt::format("{} tokens don't fit into a context of {}; raise -c or shorten the text",
                                length + added, options.context));
      }
    }
    require_memory(request);
  }

  void require_memory(std::span<const EngineSpan> request) {
    std::vector<Growth> growth;
    for (const EngineSpan& span : request) growth.push_back({span.sequence, int64_t(span.tokens.size())});
    cache.reserve(growth);
  }

  // One micro-batch. `positions`: the next position of each span.
  void run(std::span<const EngineSpan> request, const MicroBatch& pieces, std::vector<int64_t>& positions,
           const LogitsFn& on_logits) {
    batch.clear();
    spans.clear();
    rows.clear();
    for (size_t i = 0; i < pieces.size(); ++i) {
      const BatchPiece& piece = pieces[i];
      const EngineSpan& span = request[size_t(piece.span)];
      spans.push_back({span.sequence, batch.size(), piece.count});
      for (int t = piece.first; t < piece.first + piece.count; ++t) {
        const bool logits = span.all_logits || t + 1 == int(span.tokens.size());
        if (logits) rows.push_back({batch.size(), piece.span, t});
        batch.add(span.tokens[size_t(t)], llama_pos(first_position + positions[size_t(piece.span)]++), llama_seq_id(i),
                  logits);
      }
    }
    std::fill(seen.begin(), seen.end(), false);
    error = nullptr;
    clear_llama_error();
    llama_memory_clear(llama_get_memory(context.get()), false);
    const int status = llama_decode(context.get(), batch.get());
    try {
      if (error) std::rethrow_exception(error);
      if (status != 0) {
        throw Error(ErrorCode::internal, fmt::format("llama_decode failed with status {}: {}", status, llama_error()));
      }
      if (std::find(seen.begin(), seen.end(), false) != seen.end()) {
        throw Error(ErrorCode::internal, "llama.cpp skipped the attention of a layer");
      }
    } catch (const std::exception& failure) {
      abandon(failure.what());
      throw;
    }
    if (!on_logits) return;
    for (const Row& row : rows) on_logits(row.span, row.token, llama_get_logits_ith(context.get(), row.batch_row));
  }

  // The layers of the current spans may now differ in length, so their sequences can't go on.
  void abandon(const std::string& reason) {
    for (const SequenceSpan& span : spans) {
      try {
        cache.truncate(span.sequence, 0);
        broken[span.sequence] = reason;
      } catch (const Error&) {
        // The sequence itself is gone, which may be what went wrong; `reason` is reported.
      }
    }
  }

  struct Row {
    int batch_row, span, token;
  };

  std::shared_ptr<Model> model;
  EngineOptions options;
  AttentionOptions attention;
  Cache cache;
  TokenBatch batch;
  NodeBuffers buffers;
  std::vector<SequenceSpan> spans;  // of the micro-batch being computed
  std::vector<Row> rows;
  std::vector<bool> seen;  // layers attended in this micro-batch
  int64_t first_position = 0;
  std::exception_ptr error;
  std::map<SequenceId, std::string> broken;
  llama_context_ptr context;
};

Engine::Engine(std::shared_ptr<Model> model, EngineOptions options)
    : impl_(std::make_unique<Impl>(std::move(model), std::move(options))) {}
Engine::~Engine() = default;

Model& Engine::model() const {
  return *impl_->model;
}
Cache& Engine::cache() const {
  return impl_->cache;
}
const EngineOptions& Engine::options() const {
  return impl_->options;
}

void Engine::decode(std::span<const EngineSpan> spans, const LogitsFn& on_logits) {
  impl_->check(spans);
  std::vector<int64_t> positions;
  for (const EngineSpan& span : spans) positions.push_back(impl_->cache.length(span.sequence));
  const int micro_batch = impl_->options.micro_batch;
  for (const MicroBatch& pieces : cut_micro_batches(spans, micro_batch, max_sequences(micro_batch))) {
    impl_->run(spans, pieces, positions, on_logits);
  }
}

void Engine::start_at(int64_t position) {
  if (position < 0 || position + impl_->options.context > INT32_MAX)
    throw Error(ErrorCode::invalid_argument, fmt::format("no text can start at position {}", position));
  impl_->first_position = position;
}

void Engine::observe(std::function<void(int, const AttentionRows&)> observer) {
  impl_->options.observe = std::move(observer);
}

std::span<const float> Engine::decode(SequenceId sequence, std::span<const int32_t> tokens) {
  const EngineSpan span{sequence, tokens, false};
  std::span<const float> last;
  decode({&span, 1}, [&](int, int, const float* logits) { last = {logits, size_t(model().vocab_size())}; });
  return last;
}

}  // namespace kvasir
