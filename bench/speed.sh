#!/bin/bash
# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
#
# The blocks of docs/results/speed.md: bench/speed.sh [PROGRAM] [THREADS]
# The last part, whole models, takes more than an hour on an idle machine, the others some minutes. Both sides take turns, so a busy one gives wide quartiles rather than wrong medians,
# but with more running threads than cores everything that waits for its team gets slower by whole time slices.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
program=${1:-build/release/bin/kvasir}
threads=${2:-2}

run() {
  printf '\n## %s\n\n$ kvasir %s\n' "$1" "$2"
  # shellcheck disable=SC2086
  "$program" $2
}

run 'Attention: shapes and codecs' 'bench attention --shapes'
run 'Attention: threads' "bench attention --tokens 32768 --kv turbo4 --baselines f16 -t $threads"
run 'A prompt' "bench attention --routine prefill --kv turbo4,spectral3 -t $threads"
run 'Encoding' 'bench attention --routine encode --kv turbo4,turbo4.5,turbo2,oscar2,spectral3,f16'

codecs=turbo4,turbo3,turbo2,kivi4,q8,f16
while read -r name heads kv_heads dim; do
  run "$name" "bench attention --kv $codecs --heads $heads --kv-heads $kv_heads --head-dim $dim --tokens 8192 -t 1"
done <<'SHAPES'
smollm2 9 3 64
qwen2.5-1.5b 12 2 128
gemma3-270m 4 1 256
8-heads-of-128 8 2 128
SHAPES

run 'Whole models' "bench end-to-end -m smollm2,gemma3-270m,qwen2.5-coder-0.5b,qwen2.5-coder-1.5b -c 576,2112,8192,16384 -n 32 --kv turbo4,auto --native f16,q8_0 -t $threads"
