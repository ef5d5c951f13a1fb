/* Copyright The Kvasir authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * cpu_probe NAME: runs instructions of one ggml feature (GGML_<NAME>) and checks what they computed. Exit 0: the
 * feature works here. A processor that names a feature while the hypervisor forbids it dies with SIGILL, which is why
 * running is the only proof. Exit 1: wrong result; 2: unknown name.
 */
#include <immintrin.h>
#include <string.h>

#define TARGET(features) __attribute__((target(features), noinline))

static volatile int seed = 3; /* keeps the compiler from computing the answers itself */

TARGET("sse4.2") static int run_sse42(void) {
  const __m128i v = _mm_set1_epi32(seed);
  return _mm_extract_epi32(_mm_mullo_epi32(v, v), 2) == 9 && _mm_crc32_u32(0, (unsigned)seed) != 0;
}

TARGET("avx") static int run_avx(void) {
  float out[8];
  const __m256 v = _mm256_set1_ps((float)seed);
  _mm256_storeu_ps(out, _mm256_mul_ps(v, v));
  return out[7] == 9.0f;
}

TARGET("avx2") static int run_avx2(void) {
  int out[8];
  const __m256i v = _mm256_set1_epi32(seed);
  _mm256_storeu_si256((__m256i*)out, _mm256_mullo_epi32(v, v));
  return out[7] == 9;
}

TARGET("avx,fma") static int run_fma(void) {
  float out[8];
  const __m256 v = _mm256_set1_ps((float)seed);
  _mm256_storeu_ps(out, _mm256_fmadd_ps(v, v, v));
  return out[7] == 12.0f;
}

TARGET("avx,f16c") static int run_f16c(void) {
  float out[8];
  _mm256_storeu_ps(out, _mm256_cvtph_ps(_mm256_cvtps_ph(_mm256_set1_ps((float)seed), 0)));
  return out[7] == 3.0f;
}

TARGET("bmi2") static int run_bmi2(void) {
  return _pdep_u32((unsigned)seed, 0x50u) == 0x50u;
}

TARGET("avx2,avxvnni") static int run_avx_vnni(void) {
  int out[8];
  const __m256i v = _mm256_set1_epi8((char)seed);
  _mm256_storeu_si256((__m256i*)out, _mm256_dpbusd_avx_epi32(_mm256_setzero_si256(), v, v));
  return out[7] == 36;
}

/* ggml's AVX512 is F, CD, VL, DQ and BW together. */
TARGET("avx512f,avx512cd,avx512vl,avx512dq,avx512bw") static int run_avx512(void) {
  int out[16];
  __m512i v = _mm512_set1_epi32(seed);
  v = _mm512_add_epi32(v, _mm512_lzcnt_epi32(v));             /* F, CD: 3 + 30 */
  v = _mm512_add_epi8(v, _mm512_set1_epi8((char)(seed - 3))); /* BW: + 0 */
  const __m512i ones = _mm512_set1_epi32(2 - seed);
  v = _mm512_castps_si512(_mm512_and_ps(_mm512_castsi512_ps(v), _mm512_castsi512_ps(ones))); /* DQ: & ~0 */
  _mm512_storeu_si512(out, v);
  const __mmask8 equal = _mm256_cmpeq_epi32_mask(_mm512_castsi512_si256(v), _mm256_set1_epi32(33)); /* VL */
  return out[15] == 33 && equal == 0xff;
}

TARGET("avx512f,avx512bw,avx512vbmi") static int run_avx512_vbmi(void) {
  char out[64];
  const __m512i v = _mm512_set1_epi8((char)seed);
  _mm512_storeu_si512(out, _mm512_permutexvar_epi8(v, v));
  return out[63] == 3;
}

TARGET("avx512f,avx512vnni") static int run_avx512_vnni(void) {
  int out[16];
  const __m512i v = _mm512_set1_epi8((char)seed);
  _mm512_storeu_si512(out, _mm512_dpbusd_epi32(_mm512_setzero_si512(), v, v));
  return out[15] == 36;
}

TARGET("avx512f,avx512vl,avx512bf16") static int run_avx512_bf16(void) {
  float out[16];
  const __m512 v = _mm512_set1_ps((float)seed);
  const __m512bh half = _mm512_cvtne2ps_pbh(v, v);
  _mm512_storeu_ps(out, _mm512_dpbf16_ps(_mm512_setzero_ps(), half, half));
  return out[15] == 18.0f;
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    int (*run)(void);
  } probes[] = {{"SSE42", run_sse42},
                {"AVX", run_avx},
                {"AVX2", run_avx2},
                {"FMA", run_fma},
                {"F16C", run_f16c},
                {"BMI2", run_bmi2},
                {"AVX_VNNI", run_avx_vnni},
                {"AVX512", run_avx512},
                {"AVX512_VBMI", run_avx512_vbmi},
                {"AVX512_VNNI", run_avx512_vnni},
                {"AVX512_BF16", run_avx512_bf16}};
  for (unsigned i = 0; argc == 2 && i < sizeof(probes) / sizeof(probes[0]); ++i)
    if (strcmp(argv[1], probes[i].name) == 0) return probes[i].run() ? 0 : 1;
  return 2;
}
