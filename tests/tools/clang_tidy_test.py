#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: every source is checked, in few runs, even if sources do not compile together.
Method: clang_tidy.py with a stand-in for clang-tidy."""
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import clang_tidy  # noqa: E402


class ClangTidy(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder.name)
        self.sources = [Path("src", "a", f"{number}.cpp") for number in range(40)]
        self.sources.append(Path("src", "b", "other.cpp"))
        entries = [{"directory": "/", "file": str(path.resolve()),
                    "command": f"/usr/bin/ccache clang++ -O1 -o x.o -c {path.resolve()}"}
                   for path in self.sources]
        Path("build").mkdir()
        Path("build/compile_commands.json").write_text(json.dumps(entries))
        self.runs = []

    def look(self, clashing=()):
        """`clashing`: two sources that do not compile together."""
        def run(command):
            file = Path(command[-1])
            included = file.read_text() if file.name == "unit.cpp" else str(file)
            self.runs.append(included)
            clash = clashing and all(f"/{name}.cpp" in included for name in clashing)
            return (1, clang_tidy.CANNOT_COMPILE) if clash else (0, "")
        return list(clang_tidy.look_at_all(run, "build", self.sources, 1))

    def test_sources_with_the_same_flags_go_together(self):
        results = self.look()
        self.assertEqual([len(paths) for paths, _, _ in results], [32, 9])
        self.assertEqual([path for paths, _, _ in results for path in paths], self.sources)
        self.assertEqual(len(self.runs), 2)

    def test_what_clashes_is_looked_at_in_parts(self):
        results = self.look(clashing=("1", "2"))
        self.assertEqual([path for paths, _, _ in results for path in paths], self.sources)
        self.assertTrue(all(status == 0 for _, status, _ in results))

    def test_one_that_does_not_compile_fails(self):
        results = self.look(clashing=("5",))
        self.assertEqual([paths for paths, status, _ in results if status], [self.sources[5:6]])

    def test_flags_have_neither_file_nor_output(self):
        flags = clang_tidy.flags_of({"command": "ccache g++ -DX=1 -o a.o -c a.cpp -Wall"})
        self.assertEqual(flags, ("g++", "-DX=1", "-Wall"))


if __name__ == "__main__":
    unittest.main()
