#!/usr/bin/env python3
# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
"""Times saving and resuming a long text against reading it again, by `kvasir run --session`.

    bench/sessions.py -f TEXT [--model NAME] [--kv A B ...] [--bytes N] [--rounds N]

Writes docs/results/sessions.md. A file just written lies in the system's page cache (warm); for the cold rows it is
dropped from there before each resume.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
KV = ["f16", "turbo4.5,turbo4", "turbo2"]
CONTEXT = 8192
HEAD = """# Resuming a session against reading its text again

Written by `bench/sessions.py -f TEXT`: the first {read} bytes of TEXT, {tokens} tokens, read by
`kvasir run -m {model} --raw --session NAME -n 1 --kv KV`, then {rounds} runs that resume with one word more, {threads} threads.

*resume*: from taking the session's name to a sequence that goes on: index, mapping, the checksum of every byte, windows;
the model is loaded and its fingerprint known already. *warm*: the file lies in the system's page cache; *cold*: it was
dropped from there, so this is the disk. *save*: writing all of it, with sync. Medians. *share*: resume, warm, over reading the
text.

| cache | file | read the text | resume, warm | per 100 MB | share | cold | per 100 MB | save | per 100 MB |
|---|---|---|---|---|---|---|---|---|---|
"""


def kvasir(args, folder, *more):
    command = [args.kvasir, "run", "-m", args.model, "-c", str(CONTEXT), "-t", str(args.threads), "--raw", "-n", "1",
               "--temp", "0", "--json", *more]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "KVASIR_SESSION_DIR": folder})
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{result.stderr.strip().splitlines()[-1]}")
    return json.loads(result.stdout)


def drop_from_page_cache(folder):
    for path in pathlib.Path(folder).glob("*.kvasir"):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(args, folder, prompt, kv):
    name = f"bench {kv.replace('/', '-')}"
    print(f"{kv}: reading ...", file=sys.stderr, flush=True)
    first = kvasir(args, folder, "-f", prompt, "--kv", kv, "--session", name)
    times = {"warm": [], "cold": [], "save": [first["session"]["save_seconds"]]}
    for state in ("warm", "cold"):
        for _ in range(args.rounds):
            if state == "cold":
                drop_from_page_cache(folder)
            again = kvasir(args, folder, "-p", " and", "--kv", kv, "--session", name)
            if again["reused_tokens"] < first["prompt_tokens"]:
                sys.exit(f"{kv}: only {again['reused_tokens']} of {first['prompt_tokens']} tokens were resumed")
            times[state].append(again["session"]["restore_seconds"])
            times["save"].append(again["session"]["save_seconds"])
    return {"kv": kv, "tokens": first["prompt_tokens"], "bytes": first["session"]["bytes"],
            "read": first["prefill_seconds"], **{key: statistics.median(value) for key, value in times.items()}}


def row(cell):
    def both(seconds):
        return f"{1000 * seconds:.0f} ms | {1000 * seconds / cell['bytes'] * 1e8:.0f} ms"
    return (f"| `{cell['kv']}` | {cell['bytes'] / 1e6:.1f} MB | {cell['read']:.1f} s | {both(cell['warm'])} | "
            f"{cell['warm'] / cell['read']:.2%} | {both(cell['cold'])} | {both(cell['save'])} |\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-f", "--file", required=True)
    parser.add_argument("--model", default="smollm2-f32")
    parser.add_argument("--kv", nargs="+", default=KV)
    parser.add_argument("--bytes", type=int, default=26000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--kvasir", default=str(ROOT / "build/release/bin/kvasir"))
    parser.add_argument("--out", default=str(ROOT / "docs/results/sessions.md"))
    args = parser.parse_args()
    # Beside the user's own, so that it is the disk that sessions are on and not a folder in memory.
    home = pathlib.Path(os.environ.get("KVASIR_SESSION_DIR") or pathlib.Path.home())
    with tempfile.TemporaryDirectory(dir=home, prefix=".kvasir-bench-") as folder:
        prompt = pathlib.Path(folder) / "prompt.txt"
        prompt.write_bytes(pathlib.Path(args.file).read_bytes()[:args.bytes])
        cells = [measure(args, folder, str(prompt), kv) for kv in args.kv]
    text = HEAD.format(read=args.bytes, tokens=cells[0]["tokens"], model=args.model, rounds=args.rounds,
                       threads=args.threads) + "".join(map(row, cells))
    pathlib.Path(args.out).write_text(text)
    print(text)


if __name__ == "__main__":
    main()
