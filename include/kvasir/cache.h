// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The mixed-precision paged cache. For each sequence, layer and KV head, tokens lie in absolute order:
//
//   [0, S) sink, 16 bit | [S, t_p) packed pages of 64 tokens | [t_p, t) recent, 16 bit
//
// The packed boundary is a pure function of position (packed_boundary below), so a token sees the past in the same
// state whether the prompt came in one call, in chunks of 7 or token by token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvasir/codec.h"

namespace kvasir {

class FittedCodecs;  // codec/fitted_map.h

// Everything the cache and attention need to know about one layer. Filled by the host from the attention node.
struct LayerGeometry {
  int heads = 0;                   // query heads
  int kv_heads = 0;                // KV heads; heads is a multiple
  int key_dim = 0;                 // channels of q and k
  int value_dim = 0;               // channels of v and of the output
  float scale = 1.0f;              // score = scale * q.k
  float softcap = 0.0f;            // > 0: score = softcap * tanh(score / softcap)
  int window = 0;                  // > 0: a query at p sees keys at positions > p - window
  std::vector<float> sink_logits;  // one learned logit per query head, or empty

  int group() const { return heads / kv_heads; }
  bool operator==(const LayerGeometry&) const = default;
};

struct Geometry {
  std::vector<LayerGeometry> layers;
};

// One rule of `--kv-layers`, or a protection that a codec brings by default.
struct LayerOverride {
  int first = 0, last = 0;  // inclusive; negative counts from the end (-1 is the last layer)
  std::string key, value;   // codec names

  bool operator==(const LayerOverride&) const = default;
};

// What the user asked for, in names. `resolve_codecs` in cache/layer_codecs.h turns it into one codec per layer and
// side.
struct CacheOptions {
  // --kv K[,V]; these two are what `auto` stands for as long as the model has no calibration. Keys in 4 bits need their
  // loud channels apart: on Qwen2.5-Coder 0.5B plain turbo4 has 80 times the divergence (docs/results/turboquant.md).
  std::string key = "turbo4.5", value = "turbo4";
  // Both sides are `auto`: engines take kFittedAuto once there is a calibration.
  bool automatic = false;
  std::vector<LayerOverride> overrides;      // --kv-layers; later ones win
  bool protect = true;                       // the codec's default protections (cache/layer_codecs.h)
  int sink = 64;                             // --sink
  int recent = 256;                          // --recent
  size_t budget = 0;                         // bytes the pool may hand out; 0 = no limit
  bool use_kept = true;                      // --no-calibration: `auto` doesn't use the one kept for the model
  std::string calibration;                   // --calibration FILE; empty: the one kept for the model
  std::string rotations;                     // --rotations K_FILE[,V_FILE] for oscar2; empty: the calibration's own
  std::string tuned, tuned_for, tuned_fits;  // --kv @FILE: the file, and the fingerprint of the model it was made for
  // Makes the codecs that are fitted to the model; needed if any is named. Engines take it from `calibration`.
  std::shared_ptr<const FittedCodecs> fitted;
};

// What `auto` stands for with a calibration, for both sides.
inline constexpr const char* kFittedAuto = "spectral3";

// Parses `K[,V]` and `0-1,-2--1:q8[,V];...` of the command line. `@FILE` in place of K[,V] reads both from what
// kvasir tune wrote (cache/tuned_file.h). Throws Error invalid_argument, for a file not_found and corrupt.
void parse_kv(const std::string& text, CacheOptions& options);
void parse_kv_layers(const std::string& text, CacheOptions& options);

// t_p for a query at `position`: S + P floor(max(0, b - S - W) / P), b the start of the query's aligned block of 64.
// `first` is S, or where contiguous pages start again behind tokens that Cache::keep has gone over.
int64_t packed_boundary(int64_t position, int64_t first, int recent);

// What a sequence of `tokens` takes, by part. Computed by the same functions that the pool uses.
//
// The pool's budget bounds pages + windows. Pages of a restored sequence lie in its file (kvasir/session.h): the system
// may drop them from memory and read them again at any time, so they take nothing of the budget, and are counted here
// apart. What is appended after a restore comes from the pool as ever.
struct CacheSize {
  size_t pages = 0;      // packed pages in the pool
  size_t mapped = 0;     // packed pages in mapped files
  size_t windows = 0;    // sink and recent, 16 bit, as allocated
  size_t bytes_f16 = 0;  // the same tokens in a plain 16-bit cache
  size_t total() const { return pages + mapped + windows; }
  // Bits per stored value with windows, scales and protections, at this length.
  double bits_per_value() const { return bytes_f16 ? 16.0 * double(total()) / double(bytes_f16) : 0.0; }
};
CacheSize plan_size(const Geometry& geometry, const CacheOptions& options, int64_t tokens);

// The largest number of tokens for which plan_size stays within `budget` bytes.
int64_t plan_max_tokens(const Geometry& geometry, const CacheOptions& options, size_t budget);

using SequenceId = int32_t;

// Counters since construction; the CLI logs them and every JSON result carries them.
struct CacheStats {
  uint64_t nonfinite = 0;  // K or V values that were NaN or infinite (or beyond f16) and were saturated
  uint64_t pages_packed = 0;
  // Largest |mean| / deviation seen over the packed key pages of each layer: what `center` protected against.
  std::vector<float> key_offset_ratio;
};

class CacheImpl;

// `tokens` more tokens of one sequence.
struct Growth {
  SequenceId sequence = 0;
  int64_t tokens = 0;
};

// Not thread safe: one thread appends and attends; the work inside is split over threads (attention.h).
class Cache {
 public:
  // Throws Error: what `make_codec` throws for a codec that doesn't fit a layer's head dim, invalid_argument for
  // negative windows or a layer range outside the model.
  Cache(Geometry geometry, CacheOptions options);
  ~Cache();
  Cache(Cache&&) noexcept;
  Cache& operator=(Cache&&) noexcept;

  SequenceId create();
  // A second sequence with the same tokens: packed pages are shared, windows copied.
  SequenceId fork(SequenceId source);
  void remove(SequenceId sequence);
  // Keeps the longest prefix of at most `tokens` tokens from which the sequence can go on exactly as if the rest had
  // never been there, and returns its length; the caller feeds the rest again. Any position of the last aligned block
  // of 64 is exact; further back, 16-bit tokens that the state would need are packed already, and the sink window is
  // kept.
  int64_t truncate(SequenceId sequence, int64_t tokens);

  // Selection: of the first `length` tokens of a layer, KV head h keeps the sinks and those at `positions[h]`
  // (ascending, in [S, length)); the others are freed, page by page. Positions stay as they are: the next token is
  // still number `length`, and attention sees what is kept. Kept tokens may be selected from again.
  // Throws Error: invalid_argument (positions that aren't there), unsupported (pages of fewer than 16 bits would lose
  // again each time), out_of_memory; nothing changed.
  void keep(SequenceId sequence, int layer, std::span<const std::vector<int32_t>> positions);
  // As if `tokens` more tokens had been read and dropped: the next one has a number that much higher. What is behind
  // the sinks becomes kept tokens.
  // Throws Error: invalid_argument (fewer tokens than sinks), and what keep throws; nothing changed.
  void skip(SequenceId sequence, int64_t tokens);
  // Positions that KV head `head` of a layer holds, ascending, the sinks included.
  std::vector<int32_t> positions(SequenceId sequence, int layer, int head) const;
  // How many those are, of all KV heads of the layer together.
  int64_t held_tokens(SequenceId sequence, int layer) const;
  // The keys or values themselves, decoded: [positions, dim].
  std::vector<float> rows(SequenceId sequence, int layer, int head, Side side) const;
  // A copy of a sequence of another cache, of the same model and `sink`, in this one's codecs: everything behind the
  // sinks is packed, once, and counts as kept tokens. What comes after is cached as ever.
  // `like`: a sequence of this cache that was sealed before. Kept tokens that came from it, through the other cache,
  // get the codes that they had there; without it, and with codecs whose scales are shared between tokens (kivi), they
  // are rounded once more.
  // Throws Error: invalid_argument (another geometry or `sink`), out_of_memory; nothing changed.
  SequenceId seal(const Cache& from, SequenceId sequence, std::optional<SequenceId> like = std::nullopt);

  int64_t length(SequenceId sequence) const;  // tokens of the sequence, by its last layer, dropped ones included
  const Geometry& geometry() const;
  const CacheOptions& options() const;
  const Codec& codec(int layer, Side side) const;

  // Throws Error out_of_memory before anything is allocated if what is to be appended can't fit, all of it together.
  // Each sequence is named once.
  void reserve(std::span<const Growth> growth);
  void reserve(SequenceId sequence, int64_t tokens);

  // What the pool has handed out and files hold mapped now; bytes_f16 for the live tokens.
  CacheSize size() const;
  CacheSize size(SequenceId sequence) const;  // shared pages counted in full
  CacheStats stats() const;
  // Codecs in words, one line per run of equal layers: "layers 2-27: K turbo4, V turbo4".
  std::string describe() const;

  CacheImpl& impl() { return *impl_; }
  const CacheImpl& impl() const { return *impl_; }

 private:
  std::unique_ptr<CacheImpl> impl_;
};

}  // namespace kvasir
