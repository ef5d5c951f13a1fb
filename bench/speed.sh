#!/bin/bash
# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
#
# Every speed in the documentation: bench/speed.sh [PROGRAM] [THREADS]
# A few minutes on an idle machine. Both sides take turns, so a busy one gives wide quartiles rather than wrong medians,
# but with more running threads than cores everything that waits for its team gets slower by whole time slices.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
program=${1:-build/release/bin/kvasir}
threads=${2:-2}

section() { printf '\n## %s\n\n$ kvasir %s\n' "$1" "$2"; }

section 'Attention: shapes and codecs' 'bench attention --shapes'
"$program" bench attention --shapes
for routine in prefill encode; do
  command="bench attention --routine $routine --kv turbo4,spectral3 -t $threads"
  section "$routine" "$command"
  # shellcheck disable=SC2086
  "$program" $command
done

codecs=turbo4,turbo3,turbo2,kivi4,q8,f16
while read -r name heads kv_heads dim; do
  command="bench attention --kv $codecs --heads $heads --kv-heads $kv_heads --head-dim $dim --tokens 8192 -t 1"
  section "$name" "$command"
  # shellcheck disable=SC2086
  "$program" $command
done <<'SHAPES'
smollm2 9 3 64
qwen2.5-1.5b 12 2 128
gemma3-270m 4 1 256
8-heads-of-128 8 2 128
SHAPES

for context in 4096 8192; do
  command="bench end-to-end -m smollm2 -c $context -t $threads --kv turbo4,turbo2"
  section "smollm2 at $context tokens" "$command"
  # shellcheck disable=SC2086
  "$program" $command
done
