# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
"""The README's main table is what docs/results/suite says. Run from the repository's root."""

import subprocess
import sys
import unittest


class ReadmeTable(unittest.TestCase):
    def test_is_generated_from_the_results(self):
        found = subprocess.run([sys.executable, "-B", "bench/readme_table.py", "--check"], capture_output=True, text=True)
        self.assertEqual(found.returncode, 0, found.stderr)


if __name__ == "__main__":
    unittest.main()
