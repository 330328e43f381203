# SPDX-License-Identifier: MIT OR Apache-2.0
"""The lane `docs`: the site is built as ./docs builds it, and looked through."""
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
    status, output = python("tools/site_widths.py")
    if status == CANNOT:
        lane.add(Case("pages fit a phone", SKIPPED, output.strip()))
    else:
        lane.check("pages fit a phone", status, output)
