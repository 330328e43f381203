# SPDX-License-Identifier: MIT OR Apache-2.0
"""The rules of tools/tidy.py that are about where files are and what they include."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import tidy  # noqa: E402
from tree import Tree  # noqa: E402


class Project(Tree):
    """The project has files that a rule looks at."""

    def problems(self, rule, files):
        for name, text in files.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(text)
        return list(rule([Path(name) for name in files]))


class SoftFolders(Project):
    def includes(self, path, what):
        return self.problems(tidy.soft_folders, {path: f'#include "{what}"\n'})

    def test_may_include_themselves_and_what_is_before(self):
        self.assertEqual(self.includes("src/soft/memory/copy.cpp", "soft/memory/copy.hpp"), [])
        self.assertEqual(self.includes("src/soft/abi/verbs.cpp", "soft/shared/layout.hpp"), [])
        self.assertEqual(self.includes("src/soft/memory/copy.cpp", "base/check.hpp"), [])

    def test_may_not_include_what_is_after(self):
        for what in ("soft/memory/copy.hpp", "soft/faults/plan.hpp", "soft/abi/verbs.hpp"):
            self.assertEqual(len(self.includes("src/soft/shared/segment.hpp", what)), 1)

    def test_may_not_include_what_is_in_no_folder(self):
        self.assertEqual(len(self.includes("src/soft/abi/verbs.cpp", "soft/layout.hpp")), 1)
        self.assertEqual(len(self.includes("src/soft/abi/verbs.cpp", "soft/odd/layout.hpp")), 1)

    def test_may_all_include_the_hook_which_includes_what_is_first(self):
        hook = "src/soft/faults/hook.hpp"
        self.assertEqual(self.includes("src/soft/shared/peer.cpp", "soft/faults/hook.hpp"), [])
        self.assertEqual(self.includes(hook, "soft/shared/peer.hpp"), [])
        self.assertEqual(len(self.includes(hook, "soft/memory/copy.hpp")), 1)

    def test_hold_every_file_but_the_list_of_sources(self):
        files = {"src/soft/sources.cmake": "", "src/soft/abi/verbs.cpp": ""}
        self.assertEqual(self.problems(tidy.soft_folders, files), [])
        for other in ("src/soft/post.cpp", "src/soft/odd/post.cpp"):
            self.assertEqual(len(self.problems(tidy.soft_folders, files | {other: ""})), 1)


class ServerLength(Project):
    def lines(self, count, name="examples/echo_server.cpp"):
        head = "// A server.\n#include <x>\n\nnamespace {\n"
        tail = "}  // namespace\n\nint main() {\n}\n"
        return self.problems(tidy.server_length, {name: head + "int x;  // y\n\n" * count + tail})

    def test_counts_what_is_neither_blank_nor_a_comment_nor_an_include_nor_main(self):
        self.assertEqual(self.lines(24), [])
        self.assertEqual(len(self.lines(25)), 1)

    def test_is_of_the_servers_of_examples_only(self):
        self.assertEqual(self.lines(99, "examples/ping.cpp"), [])
        self.assertEqual(self.lines(99, "tests/echo_server.cpp"), [])


class TestPerSource(Project):
    ALWAYS = {"src/preload/queues.cpp": "", "src/soft/abi/context_operations.cpp": ""}

    def found(self, files):
        return self.problems(tidy.test_per_source, self.ALWAYS | files)

    def test_is_found_by_its_name_whatever_the_folder(self):
        self.assertEqual(self.found({"src/soft/memory/copy.cpp": "",
                                     "tests/unit/soft/copy_test.cpp": ""}), [])
        self.assertEqual(self.found({"src/verbs/gid.cpp": "",
                                     "tests/unit/verbs/gid_test.cpp": ""}), [])

    def test_is_missed(self):
        self.assertEqual(len(self.found({"src/soft/memory/reach.cpp": ""})), 1)

    def test_may_have_another_name_and_say_so(self):
        said = {"tests/survival/paths_test.cpp": "// Goal: x.\n// Covers: soft/a.cpp, base/b.cpp\n"}
        sources = {"src/soft/memory/a.cpp": "", "src/base/b.cpp": ""}
        self.assertEqual(self.found(sources | said), [])
        del sources["src/base/b.cpp"]
        self.assertEqual(len(self.found(sources | said)), 1)

    def test_has_one_source_of_a_name(self):
        self.assertEqual(len(self.found({"src/soft/memory/copy.cpp": "",
                                         "src/soft/control/copy.cpp": "",
                                         "tests/unit/soft/copy_test.cpp": ""})), 1)


if __name__ == "__main__":
    sys.exit(unittest.main())
