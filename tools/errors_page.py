#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""manual/errors.md: every error code and every status, from the table that explain() uses.

    tools/errors_page.py VERBATIM            exit status 1 if the page differs
    tools/errors_page.py VERBATIM --write    writes it

VERBATIM is the program, build/release/bin/verbatim; `verbatim explain --all --json` is the table.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "manual/errors.md"
BEGIN = """# Errors

Every error code, every completion status, and the errno values behind them: what each means, what
causes it (the likeliest first), and what to do. `verbatim explain retry_exceeded` prints the same
in a terminal. In a program, `explain(error)` says more: it also looks at the error's other fields
and at the machine.

`tools/errors_page.py` makes this page from the library's own table; do not edit it by hand.

| you have | look at |
|---|---|
| `result.error().code`, an `Errc` | [codes](#codes) |
| `work_failed`, a failed completion, an `ibv_wc_status` | [statuses of work](#statuses-of-work) |
| `error.os_error`, or a program that prints errno | [errno](#errno) |
"""
KINDS = [
    ("code", "Codes", "One for each decision that a caller can make."),
    ("status", "Statuses of work", "The device reports how a work request ended. The values are"
     " those of the verbs (`ibv_wc_status`). A request that fails ends its queue pair, and all"
     " later requests are `flushed`, so look at the first failure."),
]


def table(program):
    out = subprocess.run([program, "explain", "--all", "--json"], check=True, text=True,
                         stdout=subprocess.PIPE, timeout=30).stdout
    return json.loads(out)


def sentence(text):
    """With a capital letter, unless it begins with a name, and with a full stop."""
    text = text if text.startswith(("`", "/")) else text[:1].upper() + text[1:]
    return text if text.endswith((".", "!")) else text + "."


def outside_code(text, change):
    return "".join(part if part.startswith("`") else change(part)
                   for part in re.split(r"(`[^`]*`)", text))


def prose(text):
    """A sentence whose calls are code, and whose angle brackets are not taken for HTML."""
    text = outside_code(text, lambda part: re.sub(r"\b[\w:]+\(\)", r"`\g<0>`", part))
    return outside_code(sentence(text), escaped)


def escaped(text):
    return text.replace("<", "&lt;")


def entry(each):
    lines = [f"### {each['code']}\n"]
    known = f"“{each['name']}”, value {each['value']}"
    also = f", `{each['alias']}`" if each["alias"] else ""
    lines.append(f"*{escaped(known)}*{also}\n\n{prose(each['meaning'])}\n")
    causes = [f"{number}. {prose(cause)}\n"
              for number, cause in enumerate(each["causes"], 1)]
    if causes:
        lines.append("Likely causes:\n\n" + "".join(causes))
    if each["remedy"]:
        lines.append(f"**What to do:** {prose(each['remedy'])}\n")
    return "\n".join(lines)


def errno_row(each):
    found = re.search(r"Errc::(\w+)", each["meaning"])
    code = f"[{found[1]}](#{found[1]})" if found else ""
    return f"| `{each['code']}` | {each['value']} | {each['name']} | {code} |\n"


def page(entries):
    parts = [BEGIN]
    for kind, title, about in KINDS:
        parts.append(f"## {title}\n\n{about}\n")
        parts += [entry(each) for each in entries if each["kind"] == kind]
    rows = [errno_row(each) for each in entries if each["kind"] == "errno"]
    parts.append("## errno\n\nThe code that the library reports for an errno, unless it knows a"
                 " better one. `verbatim explain --in ibv_reg_mr ENOMEM` also looks at the machine."
                 "\n\n| errno | value on Linux | text | code |\n|---|---|---|---|\n"
                 + "".join(rows))
    return "\n".join(parts)


def is_stale(program):
    return not PAGE.exists() or PAGE.read_text() != page(table(program))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: tools/errors_page.py VERBATIM [--write]")
    if "--write" in sys.argv:
        PAGE.write_text(page(table(sys.argv[1])))
    if stale := is_stale(sys.argv[1]):
        print(f"{PAGE.name} is not what the table says: tools/errors_page.py {sys.argv[1]} --write")
    sys.exit(stale)
