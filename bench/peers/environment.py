# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
"""The Python environment that other packages run in: made once in KVASIR_CACHE_DIR/peers, about 2 GB.

torch's Linux wheel is linked with CUDA libraries of 5 GB that a CPU never calls. Only CUDA's small runtime is
installed; for the others empty libraries of the same names are compiled, and torch is loaded with lazy binding
(measure.py). A call that needed one of them would end the process, it cannot give a wrong number.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import venv

from catalogue import PEERS, TRANSFORMERS

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent.parent / "tools"))
from pip_download import pip_command  # noqa: E402

EMPTY = ["cublas.so.13", "cublasLt.so.13", "cudnn.so.9", "cufft.so.12", "cufile.so.0", "cusolver.so.12",
         "cusparse.so.12", "cusparseLt.so.0", "nccl.so.2", "nvrtc.so.13"]
# The one library of which a variable is needed, under its version name, before anything is called.
NVSHMEM = ("nvshmem_host.so.3", "long nvshmem_selected_device_transport[64];", "NVSHMEM { global: *; };")


def say(text):
    print(f"peers: {text}", file=sys.stderr, flush=True)


def compile_empty_library(folder, name, code="", versions=None):
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", f"-Wl,-soname,lib{name}", "-o", str(folder / f"lib{name}")]
    if versions:
        script = folder / "versions.map"
        script.write_text(versions)
        command.insert(1, f"-Wl,--version-script={script}")
    subprocess.run(command, input=code + "\n", text=True, check=True)


class Environment:
    def __init__(self):
        self.cache = pathlib.Path(os.environ.get("KVASIR_CACHE_DIR") or pathlib.Path.home() / ".cache/kvasir")
        requirements = (HERE / "requirements.txt").read_bytes()
        self.folder = self.cache / "peers" / hashlib.sha256(requirements).hexdigest()[:12]
        self.python = self.folder / "venv/bin/python"

    def pip(self, *arguments):
        command = [*pip_command(), "--python", str(self.python), "install", "--quiet", "--no-deps", "--no-compile",
                   "--disable-pip-version-check", *arguments]
        if subprocess.run(command).returncode != 0:
            raise SystemExit(f"pip could not install {' '.join(arguments)}; is the package index reachable?")

    def ready(self):
        return (self.folder / "ready").exists()

    def prepare(self):
        # optimum-quanto compiles itself at first use, and waits for ever for a lock that a killed process left.
        for lock in self.folder.glob("venv/lib/python*/site-packages/optimum/quanto/library/extensions/cpp/build/lock"):
            lock.unlink()
        if self.ready():
            return
        self.cache.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(self.cache).free < 12e9:
            raise SystemExit(f"{self.cache} has less than 12 GB free; packages and weights take 5 GB")
        say(f"installing into {self.folder} (a few minutes, 900 MB of downloads)")
        shutil.rmtree(self.folder, ignore_errors=True)
        venv.create(self.folder / "venv")  # without pip: Debian's Python has none to copy
        self.pip("--requirement", str(HERE / "requirements.txt"))
        torch, = self.folder.glob("venv/lib/python*/site-packages/torch/lib")
        for name in EMPTY:
            compile_empty_library(torch, name)
        compile_empty_library(torch, *NVSHMEM)
        (self.folder / "ready").touch()

    def site(self, requirements):
        """A folder with these packages alone, for the front of PYTHONPATH."""
        folder = self.folder / "site" / "_".join(r.replace("==", "-") for r in requirements)
        if not folder.exists():
            work = folder.with_suffix(".part")
            shutil.rmtree(work, ignore_errors=True)
            self.pip("--target", str(work), *requirements)
            work.rename(folder)
        return str(folder)

    def model_folder(self, model):
        """Weights, tokens and base logits as measure.py reads them."""
        return self.folder / "models" / model

    def path_for(self, peer):
        """PYTHONPATH of a peer's process; "base" is transformers alone."""
        chosen = PEERS["hf" if peer == "base" else peer]
        sites = [self.site([package]) for package in chosen.packages]
        return os.pathsep.join([*sites, self.site(TRANSFORMERS[chosen.transformers])])
