#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table of lanes in manual/testing.md, from the descriptions in lanes.py.

    tools/lane_table.py            exit status 1 if the page differs
    tools/lane_table.py --write    writes it
"""
import re
import sys
from pathlib import Path

import lanes

PAGE = Path("manual/testing.md")
TABLE = re.compile(r"\| lane \| what it runs \|\n(?:\|.*\n)+")


def wanted():
    rows = [f"| `{name}` | {lanes.description(name).rstrip('.')} |\n" for name in lanes.LANES]
    return "".join(["| lane | what it runs |\n", "|---|---|\n", *rows])


def is_stale():
    return TABLE.findall(PAGE.read_text()) != [wanted()]


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(TABLE.sub(lambda _: wanted(), PAGE.read_text()))
    sys.exit(is_stale())
