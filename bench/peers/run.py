#!/usr/bin/env python3
# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
"""Other people's compressed KV caches beside Kvasir's: same weights, same window of text, same score.

    bench/peers/run.py -f TEXT [--models a,b] [--peers a,b] [--only-finished]

Installs the packages that catalogue.py names (environment.py), measures each of their caches and Kvasir's codecs, and
writes docs/results/peers.md. What is finished is kept in --cells and not run again. A package that fails gets a row
that says how; the run fails only when transformers and llama.cpp disagree about the model itself.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import threading

from catalogue import FULL, KVASIR, PEERS
from environment import Environment, say
from peers_report import report

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SECONDS = 7200  # for all caches of one package on one model
SAME_MODEL = 2e-4  # most that ln(perplexity) of transformers' and llama.cpp's full caches may differ by


class Cells:
    """Results by name, one JSON file each."""

    def __init__(self, folder, context):
        self.folder, self.context = folder, context

    def path(self, *names):
        name = "__".join([*names, str(self.context)])
        return self.folder / ("".join(c if c.isalnum() or c in "-_." else "-" for c in name) + ".json")

    def get(self, *names):
        path = self.path(*names)
        return json.loads(path.read_text()) if path.exists() else None

    def put(self, result, *names):
        path = self.path(*names)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1) + "\n")


def run_kvasir(arguments, cells, model, sink, recent, codec):
    names = (model, "kvasir", f"{codec}-{sink}-{recent}")
    if cells.get(*names):
        return
    command = [arguments.kvasir, "eval", "kld", "-m", model, "-f", arguments.file, "-c", str(arguments.context),
               "--chunks", "1", "--base", "native:f32", "--kv", codec, "--sink", str(sink), "--recent", str(recent),
               "--json"]
    if arguments.threads:
        command += ["-t", str(arguments.threads)]
    say(f"{model}: kvasir {codec}, sink {sink}, recent {recent}")
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{result.stderr.strip()[-300:]}")
    cells.put(json.loads(result.stdout), *names)


def run_in_environment(arguments, environment, model, peer, *command):
    """Yields the results of measure.py as they come; the last thing yielded is a sentence on how it ended."""
    env = {**os.environ, "PYTHONPATH": environment.path_for(peer), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(environment.python), str(pathlib.Path(__file__).parent / "measure.py"),
               str(environment.model_folder(model)), "--context", str(arguments.context), "--piece",
               str(arguments.piece), "--threads", str(arguments.threads), *command]
    log = arguments.cells / f"{model}-{peer}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w") as errors:
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=errors, text=True)
        limit = threading.Timer(SECONDS, process.kill)
        limit.start()
        for line in process.stdout:
            yield json.loads(line)
        status = process.wait()
        limit.cancel()
    said = [line for line in log.read_text().splitlines() if line.strip()]
    yield f"the process ended with status {status}: {said[-1][:200] if said else ''}"


def run_base(arguments, cells, environment, model):
    if cells.get(model, "base", FULL):
        return
    say(f"{model}: reading it into transformers")
    result, *end = run_in_environment(arguments, environment, model, "base", "--gguf",
                                      str(environment.cache / f"models/{model}.gguf"), "--text", arguments.file)
    if not end:
        raise SystemExit(f"transformers could not run {model}: {result}")
    cells.put(result, model, "base", FULL)
    cells.put(result, model, FULL, result["transformers"])


def run_peer(arguments, cells, environment, model, peer):
    wanted = [method for method in PEERS[peer].methods if not cells.get(model, peer, method)]
    version = PEERS[peer].transformers
    if not cells.get(model, FULL, version):  # once for each version: it has to be the same model there
        wanted.append(FULL)
    if not wanted:
        return
    say(f"{model}: {peer}")
    end = ""
    for result in run_in_environment(arguments, environment, model, peer, "--peer", peer, "--methods", *wanted):
        if isinstance(result, str):
            end = result
        elif result["method"] == FULL:
            cells.put(result, model, FULL, version)
        else:
            cells.put(result, model, peer, result["method"])
    for method in wanted:
        if method != FULL and not cells.get(model, peer, method):
            cells.put({"method": method, "error": end}, model, peer, method)


def check_same_model(cells, model):
    """The comparison means nothing if the two sides run different weights or tokens."""
    ours, theirs = cells.get(model, "kvasir", "q8-0-0"), cells.get(model, "base", FULL)
    if not ours or not theirs:
        return
    apart = abs(math.log(ours["ppl_base"] / theirs["ppl"]))
    if apart > SAME_MODEL:
        raise SystemExit(f"{model}: perplexity of the full cache is {theirs['ppl']:.4f} in transformers and "
                         f"{ours['ppl_base']:.4f} in llama.cpp; weights or tokens differ, so nothing can be compared")


def run_model(arguments, cells, environment, model):
    run_kvasir(arguments, cells, model, 0, 0, "q8")  # this also makes a missing F32 copy
    run_base(arguments, cells, environment, model)
    check_same_model(cells, model)
    for sink, recent, codecs, _ in KVASIR:
        for codec in codecs:
            run_kvasir(arguments, cells, model, sink, recent, codec)
    for peer in arguments.peers:
        run_peer(arguments, cells, environment, model, peer)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-f", "--file", required=True, help="the text, as for kvasir eval kld")
    parser.add_argument("--models", type=lambda s: s.split(","), default=["smollm2-f32", "qwen2.5-coder-0.5b-f32"])
    parser.add_argument("--peers", type=lambda s: s.split(","), default=list(PEERS))
    parser.add_argument("--kvasir", default=str(ROOT / "build/release/bin/kvasir"))
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--piece", type=int, default=64, help="tokens of one forward pass")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--cells", type=pathlib.Path, default=ROOT / "build/results/peers")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/results/peers.md")
    parser.add_argument("--only-finished", action="store_true", help="run nothing, write what --cells holds")
    arguments = parser.parse_args()
    unknown = [peer for peer in arguments.peers if peer not in PEERS]
    if unknown:
        parser.error(f"there is no peer {unknown[0]!r}; known are {', '.join(PEERS)}")

    cells = Cells(arguments.cells, arguments.context)
    if not arguments.only_finished:
        environment = Environment()
        environment.prepare()
        for model in arguments.models:
            run_model(arguments, cells, environment, model)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(report(cells, arguments))
    print(arguments.out)


if __name__ == "__main__":
    sys.exit(main())
