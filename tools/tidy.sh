#!/bin/bash
# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
#
# tidy.sh BUILD JOBS: clang-tidy over the sources that BUILD compiles; any finding is an error (.clang-tidy).
set -euo pipefail
build=${1:?usage: tidy.sh BUILD JOBS}
jobs=${2:-1}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
find src -name '*.cpp' -print0 | sort -z | xargs -0 -r -n 1 -P "$jobs" \
  clang-tidy --quiet -p "$build" --extra-arg=-Wno-unknown-warning-option
