# SPDX-License-Identifier: MIT OR Apache-2.0
"""The lane finds pages of the cookbook that do not match their programs."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from cookbook_lane import blocks, unmatched, verdict_on  # noqa: E402
from gtest_report import FAILED, PASSED  # noqa: E402

PAGE = """
<!-- snippet: tests/cookbook/one.c bug -->
<!-- output -->
```console
$ A=1 B=x=y verbatim preload -- ./one
first line
second line
```
<!-- /output -->
"""


class Pages(unittest.TestCase):
    def test_say_program_settings_and_output(self):
        self.assertEqual(blocks(PAGE), [
            ("one", {"A": "1", "B": "x=y"}, "first line\nsecond line\n")])

    def test_that_fit_their_programs_are_fine(self):
        self.assertEqual(list(unmatched({"page": PAGE}, ["one"])), [])

    def test_with_each_kind_of_gap_are_named(self):
        for page, sources, said in (
                (PAGE, ["one", "two"], "tests/cookbook/two.c: no page"),
                (PAGE, [], "there is no tests/cookbook/one.c"),
                (PAGE.replace("snippet:", "other:"), ["one"], "not its code"),
                (PAGE + "<!-- output -->\n```text\n```\n", ["one"], "malformed")):
            problems = list(unmatched({"page": page}, sources))
            self.assertEqual(len(problems), 1)
            self.assertIn(said, problems[0])


class Programs(unittest.TestCase):
    def test_have_to_print_what_the_page_says_and_end_well(self):
        self.assertEqual(verdict_on("a\n", 0, "a\n"), (PASSED, ""))
        for status, output in ((0, "b\n"), (0, "a\nb\n"), (0, ""), (1, "a\n"), (None, "a\n")):
            self.assertEqual(verdict_on("a\n", status, output)[0], FAILED)


if __name__ == "__main__":
    unittest.main()
