# SPDX-License-Identifier: MIT OR Apache-2.0
"""The lane `docs`: builds the site as ./docs does, and checks it."""
import sys

from gtest_report import SKIPPED, Case

CANNOT = 77  # exit status of a tool that cannot run here
PROGRAM = "build/release/bin/verbatim"


def check_site(lane):
    def python(*command):
        return lane.run([sys.executable, *command])

    lane.check("code in the docs is that of the examples", *python("tools/snippets.py"))
    lane.check("manual/errors.md is the library's table", *python("tools/errors_page.py", PROGRAM))
    status, output = python("tools/make_site.py")
    lane.check("the site builds without a warning", status, output)
    if status != 0:
        return
    lane.check("every link leads somewhere", *python("tools/site_check.py"))
    for name, tool in (("pages fit a phone", "tools/site_widths.py"),
                       ("the search finds a word, from a disk too", "tools/site_search.py")):
        status, output = python(tool)
        if status == CANNOT:
            lane.add(Case(name, SKIPPED, output.strip()))
        else:
            lane.check(name, status, output)
