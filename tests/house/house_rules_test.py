# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
"""The rules of the house, read from the files: includes go one way down, files stay small, names say something.

Run from the repository's root.
"""

import os
import re
import tempfile
import unittest

# Each room and the rooms right below it; what those include is allowed as well.
BELOW = {
    "base": [],
    "transform": ["base"],
    "quant": ["base"],
    "codec": ["transform", "quant"],
    "calibrate": ["attention"],
    "cache": ["codec"],
    "attention": ["cache"],
    "cuda": ["cache"],
    "select": ["attention", "cuda"],
    "episode": ["base"],
    "host": ["select", "episode", "calibrate"],
    "eval": ["host"],
    "serve": ["host"],
    "vector": ["transform", "quant"],
    "cli": ["eval", "serve", "vector"],
    "house": ["cli"],  # only as a folder of tests
}
PUBLIC_HEADERS = {"error.h": "base", "codec.h": "codec", "cache.h": "cache", "session.h": "cache", "attention.h": "attention",
                  "engine.h": "host", "vector.h": "vector"}
LLAMA_HEADER = re.compile(r"^(llama|ggml|gguf)([-.\w]*)\.h$")
LLAMA_FROM = "host"  # the lowest room that may know llama.cpp
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
VAGUE = {"util", "utils", "utility", "utilities", "common", "helper", "helpers", "misc", "manager", "stuff"}
MAX_LINES = 1000
CODE = (".h", ".cpp", ".cu", ".cuh", ".c", ".py", ".sh", ".cmake")
OUR_FOLDERS = ("include", "src", "tests", "bench", "tools", "cmake", "bindings", "web")


def reach(room):
    rooms = {room}
    for below in BELOW[room]:
        rooms |= reach(below)
    return rooms


def our_files(root):
    for folder in OUR_FOLDERS:
        for path, folders, files in os.walk(os.path.join(root, folder)):
            folders[:] = sorted(f for f in folders if f != "__pycache__")
            for name in sorted(files):
                yield os.path.relpath(os.path.join(path, name), root)


def room_of(path):
    """The room of a source, test or public header; None for anything else."""
    parts = path.split(os.sep)
    if parts[0] in ("src", "tests") and len(parts) > 2:
        return parts[1]
    if parts[:2] == ["include", "kvasir"] and len(parts) == 3:
        return PUBLIC_HEADERS.get(parts[2], "?")
    return None


def included_room(path, quoted, header):
    """The room that an #include line reaches into; None for other libraries, "?" for a place that is nowhere."""
    parts = header.split("/")
    if parts[0] == "kvasir":
        return PUBLIC_HEADERS.get("/".join(parts[1:]), "?")
    if LLAMA_HEADER.match(header):
        return LLAMA_FROM
    if parts[0] == "tests" and len(parts) > 2:
        return parts[1]
    if parts[0] in BELOW and len(parts) > 1:
        return parts[0]
    if quoted and path.startswith(("src" + os.sep, "include" + os.sep)):
        return "?"
    return None


def include_faults(root):
    for path in our_files(root):
        room = room_of(path)
        if room is None or not path.endswith((".h", ".cpp", ".cu", ".cuh", ".c")):
            continue
        if room not in BELOW:
            yield f"{path}: belongs to no room; add its room to this test"
            continue
        allowed = reach(room)
        with open(os.path.join(root, path), encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                target = included_room(path, match[1] == '"', match[2])
                if target == "?":
                    yield f'{path}:{number}: {match[2]} is neither "room/x.h" below src/ nor a known "kvasir/x.h"'
                elif target is not None and target not in allowed:
                    yield f"{path}:{number}: {room} must not include {match[2]} ({target} is not below it)"


def size_faults(root):
    for path in our_files(root):
        if path.endswith(CODE):
            with open(os.path.join(root, path), encoding="utf-8") as file:
                lines = sum(1 for _ in file)
            if lines > MAX_LINES:
                yield f"{path}: {lines} lines; split it (at most {MAX_LINES})"


def name_faults(root):
    for path in our_files(root):
        for part in path.split(os.sep):
            words = set(re.split(r"[^a-z0-9]+", part.lower()))
            if words & VAGUE:
                yield f"{path}: the name {part!r} doesn't say what is inside"


def licence_faults(root):
    for path in our_files(root):
        if path.endswith(CODE) or os.path.basename(path) == "CMakeLists.txt":
            with open(os.path.join(root, path), encoding="utf-8") as file:
                head = "".join(file.readline() for _ in range(4))
            if "SPDX-License-Identifier: Apache-2.0" not in head or "Copyright The Kvasir authors" not in head:
                yield f"{path}: lacks the two licence lines at its top"


class HouseRules(unittest.TestCase):
    def assert_none(self, faults):
        faults = list(faults)
        self.assertEqual(faults, [], "\n" + "\n".join(faults))

    def test_includes_go_one_way_down(self):
        self.assert_none(include_faults("."))

    def test_files_stay_small(self):
        self.assert_none(size_faults("."))

    def test_names_say_something(self):
        self.assert_none(name_faults("."))

    def test_licence_lines(self):
        self.assert_none(licence_faults("."))


class TheCheckItself(unittest.TestCase):
    """A rule that finds nothing in a wrong tree would be worth nothing."""

    def faults(self, check, files):
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            return list(check(root))

    def test_finds_includes_that_go_up(self):
        for path, line in [
                ("src/base/a.h", '#include "quant/codebook.h"'),
                ("src/transform/a.cpp", '#include "quant/codebook.h"'),
                ("src/cache/a.cpp", '#  include <kvasir/engine.h>'),
                ("src/attention/a.cpp", "#include <ggml-cpu.h>"),
                ("src/vector/a.cpp", '#include "codec/page_codec.h"'),
                ("src/codec/a.cpp", '#include "page_codec.h"'),
                ("src/codec/a.cpp", '#include "kvasir/nowhere.h"'),
                ("include/kvasir/codec.h", '#include "kvasir/cache.h"'),
                ("tests/codec/a_test.cpp", '#include "cache/pool.h"'),
                ("src/attic/a.cpp", "")]:
            self.assertEqual(len(self.faults(include_faults, {path: line + "\n"})), 1, (path, line))

    def test_accepts_includes_that_go_down(self):
        lines = ['#include "codec/page_codec.h"', '#include "kvasir/error.h"', "#include <vector>",
                 '#include "cache/pool.h"']
        self.assertEqual(self.faults(include_faults, {"src/cache/a.cpp": "\n".join(lines)}), [])
        self.assertEqual(self.faults(include_faults, {"src/eval/a.cpp": "#include <llama.h>\n"}), [])

    def test_finds_long_files_vague_names_and_missing_licences(self):
        self.assertEqual(len(self.faults(size_faults, {"src/base/a.cpp": "\n" * (MAX_LINES + 1)})), 1)
        self.assertEqual(len(self.faults(name_faults, {"src/base/string_utils.h": ""})), 1)
        self.assertEqual(self.faults(name_faults, {"src/base/commonness.h": ""}), [])
        self.assertEqual(len(self.faults(licence_faults, {"src/base/a.cpp": "int x;\n"})), 1)


if __name__ == "__main__":
    unittest.main()
