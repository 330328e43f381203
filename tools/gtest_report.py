# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a GoogleTest program did, test by test.

The verdicts come from its JSON report. The text of a test comes from its output, because
GoogleTest 1.12 does not report why a test was skipped. A program that crashed writes no report at
all; in that case everything comes from the output.
"""
import json
import re
from typing import NamedTuple

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
BEGIN = re.compile(r"\[ RUN      \] (\S+)")
END = re.compile(r"\[ +(OK|FAILED|SKIPPED) +\] ([^\s,]+)")
VERDICTS = {"OK": PASSED, "FAILED": FAILED, "SKIPPED": SKIPPED, "COMPLETED": PASSED}


class Case(NamedTuple):
    name: str
    verdict: str
    detail: str = ""


def tail(text):
    return "\n".join(text.rstrip().splitlines()[-60:])


def printed(output):
    """{test: (verdict, text)} from the output. A test in which the program crashed has failed."""
    found, name, lines = {}, None, []
    for line in output.splitlines():
        if begin := BEGIN.match(line):
            name, lines = begin[1], []
        elif name and (end := END.match(line)) and end[2] == name:
            found[name], name = (VERDICTS[end[1]], "\n".join(lines)), None
        elif name:
            lines.append(line)
    if name:
        found[name] = (FAILED, "\n".join([*lines, "the program ended in this test"]))
    return found


def reported(path):
    """{test: (verdict, messages)} from the JSON report; empty if there is none."""
    try:
        report = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    found = {}
    for suite in report["testsuites"]:
        for test in suite["testsuite"]:
            text = "\n".join(each["failure"] for each in test.get("failures", []))
            # The fourth result, SUPPRESSED, means that the test is disabled.
            verdict = FAILED if text else VERDICTS.get(test["result"], SKIPPED)
            found[f"{suite['name']}.{test['name']}"] = (verdict, text)
    return found


def reason(text):
    """The reason of a skipped test: the lines below 'file:line: Skipped', joined."""
    lines = [line.strip() for line in text.splitlines() if not line.endswith(": Skipped")]
    return " ".join(line for line in lines if line) or "disabled, or no reason given"


def cases(report_path, output, status, program):
    """The Cases of one run, from its report, its output and its exit status."""
    texts, found = printed(output), []
    for name, (verdict, text) in (reported(report_path) or texts).items():
        text = texts.get(name, (None, ""))[1] or text
        found.append(Case(name, verdict, reason(text) if verdict == SKIPPED else tail(text)))
    # All tests passed, but the program failed: a leak found at exit, or a crash outside a test.
    if status != 0 and not any(case.verdict == FAILED for case in found):
        found.append(Case(program, FAILED, f"{tail(output)}\nexit status {status}"))
    return found
