#!/bin/bash
# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds the rooms up to attention for AArch64 on a Debian machine of any kind, and runs their tests under qemu: the
# NEON kernels as an ARM compiler makes them (KVASIR_NEON_EMULATION tests the same sources through SIMDe). Everything
# lies in build/arm64: packages of the other architecture are unpacked there and never installed.
#   tools/cross_arm64.sh                        test_codec and test_attention, half an hour
#   tools/cross_arm64.sh test_quant test_cache  these instead
# GTEST_FILTER chooses among the tests: 'Kernels.*:FloatKernels.*' are the kernels alone, five minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
jobs=${JOBS:-$(nproc)}
folder=$PWD/build/arm64
root=$folder/root
tests=("$@")
[[ $# -gt 0 ]] || tests=(test_codec test_attention)

tools=(g++-aarch64-linux-gnu qemu-user cmake ninja-build)
libraries=(libfmt-dev libfmt9 libsqlite3-dev libsqlite3-0 libzip-dev libzip4 libgtest-dev libxxhash-dev
  nlohmann-json3-dev libeigen3-dev)

say() { echo "cross_arm64: $*" >&2; }

for program in aarch64-linux-gnu-g++ qemu-aarch64 cmake ninja; do
  if ! command -v "$program" >/dev/null; then
    say "$program is missing; as root, run"
    say "  apt-get install --no-install-recommends ${tools[*]}"
    exit 1
  fi
done

# apt's own lists and an empty list of what is installed, both for the other architecture alone.
fetch_libraries() {
  local apt=$folder/apt
  rm -rf "$apt" "$root"
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/packages" "$root"
  touch "$apt/status"
  local options=(-q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$apt"
    -o Dir::State::Lists="$apt/lists" -o Dir::State::Status="$apt/status" -o Dir::Cache="$apt/cache"
    -o APT::Sandbox::User=)
  say "downloading ${libraries[*]}"
  apt-get "${options[@]}" update >&2
  (cd "$apt/packages" && apt-get "${options[@]}" download "${libraries[@]}" >&2)
  local package
  for package in "$apt"/packages/*.deb; do dpkg -x "$package" "$root"; done
  rm -rf "$apt"
  touch "$root/complete"
}

[[ -e $root/complete ]] || fetch_libraries
cmake -S . -B "$folder/cmake" -G Ninja -DCMAKE_BUILD_TYPE=Release -DKVASIR_HOST=OFF \
  -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
  -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
  -DCMAKE_FIND_ROOT_PATH="$root" -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY \
  -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=ONLY \
  -DCMAKE_CROSSCOMPILING_EMULATOR="qemu-aarch64;-L;/usr/aarch64-linux-gnu" >&2
rooms=(kvasir_select kvasir_calibrate kvasir_vector kvasir_episode)  # and with them those below
cmake --build "$folder/cmake" --parallel "$jobs" --target "${rooms[@]}" "${tests[@]}" >&2
for test in "${tests[@]}"; do
  OMP_WAIT_POLICY=passive qemu-aarch64 -L /usr/aarch64-linux-gnu "$folder/cmake/tests/$test" --gtest_brief=1
done
