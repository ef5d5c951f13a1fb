#!/bin/bash
# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
#
# From a bare Debian 12 to everything that a build and the demo need; may be run again at any time.
#   tools/setup.sh          packages, llama.cpp, the model smollm2
#   tools/setup.sh --lint   clang-format and clang-tidy as well
# KVASIR_CACHE_DIR (default ~/.cache/kvasir) takes llama.cpp and the models; KVASIR_LLAMA_DIR names a checkout to use.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export KVASIR_CACHE_DIR=${KVASIR_CACHE_DIR:-$HOME/.cache/kvasir}

packages=(build-essential cmake ninja-build python3 python3-pip libgtest-dev libfmt-dev nlohmann-json3-dev libcli11-dev
  libxxhash-dev libeigen3-dev libzip-dev libsqlite3-dev libsimde-dev)
case ${1:-} in
  '') ;;
  --lint) packages+=(clang-format clang-tidy) ;;
  *)
    echo "usage: setup.sh [--lint]" >&2
    exit 2
    ;;
esac

say() { echo "setup: $*" >&2; }

install_packages() {
  if ! command -v dpkg-query apt-get >/dev/null; then
    say "not a Debian system; this needs what Debian calls: ${packages[*]}"
    return
  fi
  local missing=() package
  for package in "${packages[@]}"; do
    if [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) != installed ]]; then
      missing+=("$package")
    fi
  done
  if [[ ${#missing[@]} -eq 0 ]]; then
    say "all packages are there"
    return
  fi
  local as_root=()
  if [[ $(id -u) -ne 0 ]]; then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; then
      as_root=(sudo)
    else
      say "packages are missing and this user cannot install them; as root, run"
      say "  apt-get install --no-install-recommends ${missing[*]}"
      exit 1
    fi
  fi
  say "installing ${missing[*]}"
  "${as_root[@]}" apt-get update -q >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}" >&2
}

install_packages
if [[ -n ${KVASIR_LLAMA_DIR:-} ]]; then
  "$here/build_llama.sh" --source "$KVASIR_LLAMA_DIR" >/dev/null
else
  "$here/build_llama.sh" >/dev/null
fi
python3 "$here/fetch_model.py" smollm2 >/dev/null
say "done in $SECONDS s; llama.cpp and models are in $KVASIR_CACHE_DIR"
