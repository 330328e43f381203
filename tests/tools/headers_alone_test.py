#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: every public header that no source includes first is compiled alone, by both compilers.
Method: headers_alone.py on a small tree, with a stand-in for the compilers."""
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import headers_alone  # noqa: E402


class HeadersAlone(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for name in ("v/first.hpp", "v/second.hpp", "v/detail/third.hpp"):
            path = self.root / "include" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("#pragma once\n")
        source = self.root / "first.cpp"
        source.write_text('// Why.\n#include "v/first.hpp"\n\n#include "v/second.hpp"\n')
        self.sources = [source]

    def test_a_header_behind_another_is_not_proven(self):
        self.assertEqual(headers_alone.unproven(self.root / "include", self.sources),
                         ["v/detail/third.hpp", "v/second.hpp"])

    def test_each_is_compiled_by_both_compilers(self):
        seen = []

        def run(command):
            seen.append((command[0], Path(command[-1]).read_text()))
            return (1, "wrong") if command[0] == "g++" else (0, "")

        results = list(headers_alone.compile_all(run, self.root / "build", ["v/second.hpp"], 1))
        self.assertEqual(seen, [("g++", "#include <v/second.hpp>\n"),
                                ("clang++-19", "#include <v/second.hpp>\n")])
        self.assertEqual(results, [("v/second.hpp alone (g++)", 1, "wrong"),
                                   ("v/second.hpp alone (clang++-19)", 0, "")])


if __name__ == "__main__":
    unittest.main()
