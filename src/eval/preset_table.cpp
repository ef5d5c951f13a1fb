// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/preset_table.h"

namespace kvasir {
namespace {

constexpr std::string_view kKivi = "KIVI, arXiv 2402.02750, and its repository";
constexpr std::string_view kKiviDiffers =
    "Keys and values are both packed in pages of 64 tokens behind the recent window; KIVI packs keys 128 at a time and "
    "values one by one. KIVI attends to the prompt in full precision and packs afterwards; here the prompt is read "
    "through the packed pages, which is harder.";

constexpr std::string_view kTurbo = "TurboQuant, arXiv 2504.19874, and the authors' released code";
constexpr std::string_view kTurboDiffers =
    "Dense random rotation and raw norm as in the paper; the levels are those for normal numbers, which cost at most "
    "half a per cent of squared error. The paper states no window; 128 recent tokens in 16 bits are "
    "what the released code keeps. Here the prompt is read through the packed pages.";
constexpr std::string_view kTurboFractionDiffers =
    "Dense random rotation and raw norms as in the paper; levels for normal numbers, which cost at most half a per "
    "cent of squared error. The paper doesn't say how outlier channels are found: here those "
    "of most energy in a head's first packed page, a quarter of them (32 of 128). Its released code divides both "
    "codebooks by sqrt(128) instead of by the root of each part's size; here they are scaled right. 128 recent tokens "
    "in 16 bits. The prompt is read through the packed pages.";

std::vector<std::string_view> turbo_claims() {
  return {"LongBench average, Llama-3.1-8B-Instruct (Table 1): 16 bit 50.06; TurboQuant 3.5 bits 50.06, 2.5 bits 49.44",
          "Needle, 4k to 104k, a quarter of the memory (Fig. 4): full 0.997, TurboQuant 0.997",
          "Repeated by others (arXiv 2604.19528): LongBench-E 16 bit 50.39, 3.5 bits 49.57, 2.5 bits 47.78; needle "
          "full 0.987, 3.5 bits 0.962, 2.5 bits 0.709"};
}

constexpr std::string_view kOscar = "OSCAR, arXiv 2605.17757 (Table 2)";

constexpr std::string_view kVllm = "vLLM, pull request 38479 and its documentation";
constexpr std::string_view kVllmDiffers =
    "vLLM's values are uniform levels with scale and minimum, unrotated, and its 8-bit keys are FP8; here values are "
    "Lloyd-Max behind a rotation and 8-bit keys are int8. The first and last two layers stay in 16 bits as there. "
    "vLLM attends to a prompt in full precision; here it is read through the packed pages.";
constexpr std::string_view kVllmLayers = "0-1,-2--1:f16";

constexpr std::string_view kLlama = "llama.cpp, its own cache with that type for keys and values";
constexpr std::string_view kLlamaSettings =
    "-ctk and -ctv of that type, flash attention on, no 16-bit windows; keys and values pass a Hadamard transform "
    "(pull request 21038) where the head size allows it";
constexpr std::string_view kLlamaDiffers = "In nothing: the same library runs it.";

const std::vector<Preset>& rows() {
  static const std::vector<Preset> table = {
      {"kivi-paper",
       "kivi2",
       0,
       128,
       false,
       "",
       kKivi,
       "2 bits, groups of 32, residual of 128 tokens, no sinks",
       kKiviDiffers,
       {"LongBench average, Mistral-7B-Instruct-v0.2: 16 bit 43.54, KIVI-2 42.43",
        "LongBench average, LongChat-7B-v1.5-32K: 16 bit 38.72, KIVI-2 38.30",
        "GSM8K, Llama-2-13B: 16 bit 22.67, KIVI-2 20.77, 2 bits without the residual 12.21 (through a third party)",
        "The authors advise 4 bits where heads share keys (MQA, GQA)"}},
      {"kivi-paper-4",
       "kivi4",
       0,
       128,
       false,
       "",
       kKivi,
       "4 bits, groups of 32, residual of 128 tokens, no sinks",
       kKiviDiffers,
       {"LongBench average, Mistral-7B-Instruct-v0.2: 16 bit 43.54, KIVI-4 43.53",
        "LongBench average, LongChat-7B-v1.5-32K: 16 bit 38.72, KIVI-4 38.79"}},
      {"turboquant-paper", "turbo3:scale=norm:rotation=haar", 0, 128, false, "", kTurbo,
       "Algorithm 1 at 3 whole bits; the paper's own KV tables use 2.5 and 3.5", kTurboDiffers, turbo_claims()},
      {"turboquant-paper-2", "turbo2:scale=norm:rotation=haar", 0, 128, false, "", kTurbo,
       "Algorithm 1 at 2 whole bits", kTurboDiffers, turbo_claims()},
      {"turboquant-paper-4", "turbo4:scale=norm:rotation=haar", 0, 128, false, "", kTurbo,
       "Algorithm 1 at 4 whole bits", kTurboDiffers, turbo_claims()},
      {"turboquant-paper-2.5", "turbo2.5:scale=norm:rotation=haar", 0, 128, false, "", kTurbo,
       "32 outlier channels of 128 at 3 bits, the rest at 2, a norm each", kTurboFractionDiffers, turbo_claims()},
      {"turboquant-paper-3.5", "turbo3.5:scale=norm:rotation=haar", 0, 128, false, "", kTurbo,
       "32 outlier channels of 128 at 4 bits, the rest at 3, a norm each", kTurboFractionDiffers, turbo_claims()},
      {"oscar-paper",
       "oscar2",
       64,
       256,
       false,
       "",
       kOscar,
       "calibrated rotation, clip 0.96 / 0.92, asymmetric 2 bits in groups of 128, 64 sinks, 256 recent tokens",
       "Pages are packed 64 tokens at a time, OSCAR packs 8. Calibrated on the text given to `kvasir calibrate`, not "
       "on "
       "GPQA.",
       {"Mean of five reasoning tasks, Qwen3-8B: 16 bit 70.84, OSCAR 69.42, plain Hadamard at 2 bits 10.14",
        "Mean of five reasoning tasks, Qwen3-4B-Thinking: 16 bit 75.64, OSCAR 71.86",
        "Without the windows OSCAR scores 0.00 on the same tasks (Table 5)"}},
      {"turboquant-by-oscar",
       "turbo3",
       0,
       0,
       false,
       "",
       kOscar,
       "TurboQuant as OSCAR's authors ran it: 3 bits in all layers, no sinks, no recent window",
       "Up to 128 of the newest tokens still lie in 16 bits, until their page is full.",
       {"Mean of five reasoning tasks, 16 bit against TurboQuant K3V3: Qwen3-4B-Thinking 75.64 / 31.74, Qwen3-8B 70.84 "
        "/ 56.88, Qwen3-32B 74.19 / 71.99, GLM-4.7 77.89 / 78.15"}},
      {"vllm-k8v4",
       "q8,turbo4",
       0,
       0,
       false,
       kVllmLayers,
       kVllm,
       "turboquant_k8v4: FP8 keys, 4-bit values",
       kVllmDiffers,
       {"Qwen3-4B: GSM8K 16 bit 0.900, k8v4 0.860; perplexity +1.17 %"}},
      {"vllm-4bit",
       "turbo4",
       0,
       0,
       false,
       kVllmLayers,
       kVllm,
       "turboquant_4bit_nc: 4-bit keys and values",
       kVllmDiffers,
       {"Qwen3-4B: GSM8K 16 bit 0.900, 4bit_nc 0.840; perplexity +2.71 %"}},
      {"vllm-k3v4",
       "turbo3,turbo4",
       0,
       0,
       false,
       kVllmLayers,
       kVllm,
       "turboquant_k3v4_nc: 3-bit keys, 4-bit values",
       kVllmDiffers,
       {"Qwen3-4B: GSM8K 16 bit 0.900, k3v4_nc 0.780; perplexity +10.63 %"}},
      {"vllm-3bit",
       "turbo3",
       0,
       0,
       false,
       kVllmLayers,
       kVllm,
       "turboquant_3bit_nc: 3-bit keys and values",
       kVllmDiffers,
       {"Qwen3-4B: GSM8K 16 bit 0.900, 3bit_nc 0.720; perplexity +20.59 %"}},
      {"llama-q8_0",
       "native:q8_0",
       0,
       0,
       false,
       "",
       kLlama,
       kLlamaSettings,
       kLlamaDiffers,
       {"KLD against a 16-bit cache, f16 weights, 512 tokens (pull request 7412, before the Hadamard transform): keys "
        "9.4e-4, values 7.4e-4, both 9.8e-4; that set-up's own floor is 1.9e-4"}},
      {"llama-q4_0",
       "native:q4_0",
       0,
       0,
       false,
       "",
       kLlama,
       kLlamaSettings,
       kLlamaDiffers,
       {"KLD, Qwen3.5-4B: 9.1e-3 (pull request 21089)",
        "Perplexity gap of a 4-bit cache on Qwen3-30B without and with the transform: 11.30 % and 0.92 % "
        "(ik_llama.cpp, pull request 1033)"}},
      {"llama-q4_1", "native:q4_1", 0, 0, false, "", kLlama, kLlamaSettings, kLlamaDiffers, {}},
      {"llama-q5_0", "native:q5_0", 0, 0, false, "", kLlama, kLlamaSettings, kLlamaDiffers, {}},
      {"llama-q5_1",
       "native:q5_1",
       0,
       0,
       false,
       "",
       kLlama,
       kLlamaSettings,
       kLlamaDiffers,
       {"KLD against a 16-bit cache, values only, f16 weights, 512 tokens (pull request 7412): 1.76e-3"}},
      {"llama-f16", "native:f16", 0, 0, false, "", kLlama, "llama.cpp's default", kLlamaDiffers, {}},
  };
  return table;
}

}  // namespace

std::span<const Preset> preset_table() {
  return rows();
}

}  // namespace kvasir
