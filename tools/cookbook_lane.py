#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The lane `cookbook`: the C programs of manual/cookbook, on the software device.

In a page, `<!-- output -->` and `<!-- /output -->` enclose a block that begins with a command,
`$ [VARIABLE=VALUE]... verbatim preload -- ./NAME`; the rest is what tests/cookbook/NAME.c prints
then. Each such block is one test.

tools/cookbook_lane.py --write    fills the blocks with what the programs print now
"""
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gtest_report import FAILED, PASSED, Case
from programs import BUILD, PRELOAD, Tests, environment

PAGES, SOURCES = Path("manual/cookbook"), Path("tests/cookbook")
LIMIT_S = 120  # for one program; most take milliseconds
AT_ONCE = 4  # most of their time is waiting
BLOCK = re.compile(r"(<!-- output -->\n```console\n"
                   r"\$ (?P<settings>(?:\w+=\S+ )*)verbatim preload -- \./(?P<name>\w+)\n)"
                   r"(?P<said>.*?)(```\n<!-- /output -->)", re.S)


def blocks(text):
    """(program, its settings, what it prints) of each block of a page."""
    return [(each["name"], settings_of(each), each["said"]) for each in BLOCK.finditer(text)]


def settings_of(block):
    return dict(word.split("=", 1) for word in block["settings"].split())


def unmatched(pages, sources):
    """What is wrong with the pages themselves: {path: text}, and the names of the programs."""
    shown = [name for text in pages.values() for name, _, _ in blocks(text)]
    for path, text in pages.items():
        for name, _, _ in blocks(text):
            if f"<!-- snippet: {SOURCES}/{name}.c " not in text:
                yield f"{path}: shows what {name} prints, and not its code"
        if text.count("<!-- output") != len(blocks(text)):
            yield f"{path}: an output block is malformed"
    for name in sorted(set(sources) - set(shown)):
        yield f"{SOURCES}/{name}.c: no page shows what it prints"
    for name in sorted(set(shown) - set(sources)):
        yield f"{name}: a page shows what it prints, and there is no {SOURCES}/{name}.c"


def verdict_on(said, status, output):
    """(verdict, why) of a program whose page says this."""
    if (status, output) == (0, said):
        return PASSED, ""
    return FAILED, f"the page says:\n{said}and the program, exit status {status}:\n{output}"


def read_pages():
    return {path: path.read_text() for path in sorted(PAGES.glob("*.md"))}


def command_of(name):
    return [BUILD / "tests/cookbook" / name]


def surroundings(settings):
    return environment(LD_PRELOAD=PRELOAD, COOKBOOK_DEVICE="soft0", **settings)


def cookbook(lane):
    """The C programs of `manual/cookbook`, each with a classic bug, on `soft0` through LD_PRELOAD:
    each prints what its page says."""
    lane.build("release", "cookbook_programs")
    tests, pages = Tests(lane), read_pages()
    wrong = list(unmatched(pages, [path.stem for path in SOURCES.glob("*.c")]))
    lane.check("each program has its page, and each page its programs", len(wrong),
               "\n".join(wrong))

    def run(block):
        name, settings, said = block
        status, output = tests.run(command_of(name), surroundings(settings), LIMIT_S)
        return Case(name, *verdict_on(said, status, output))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for case in pool.map(run, (each for text in pages.values() for each in blocks(text))):
            lane.add(case)


def write():
    def fresh(block):
        done = subprocess.run(command_of(block["name"]), env=surroundings(settings_of(block)),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                              timeout=LIMIT_S, check=True)
        return block[1] + done.stdout + block[5]

    for path, text in read_pages().items():
        path.write_text(BLOCK.sub(fresh, text))


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    write()
