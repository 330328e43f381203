#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Code in the docs comes from compiled examples, so that it cannot rot.

In a Markdown file, `<!-- snippet: FILE NAME -->` and `<!-- /snippet -->` enclose a code block. Its
text is that between `// [NAME]` and `// [/NAME]` in FILE, without the common indentation.

tools/snippets.py          checks; prints each block that differs and fails
tools/snippets.py --write  brings the blocks up to date
"""
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"(<!-- snippet: (?P<file>\S+) (?P<name>\S+) -->\n```(?:c|cpp)\n)"
    r"(?P<code>.*?)(```\n<!-- /snippet -->)",
    re.S)


def source_of(file: str, name: str) -> str:
    text = (ROOT / file).read_text()
    found = re.search(rf"^ *// \[{name}\]\n(.*?)^ *// \[/{name}\]\n", text, re.S | re.M)
    if not found:
        raise SystemExit(f"{file}: no snippet {name}")
    return textwrap.dedent(found.group(1))


def refreshed(text: str) -> str:
    return BLOCK.sub(lambda m: m[1] + source_of(m["file"], m["name"]) + m[5], text)


def stale(write: bool = False) -> list[str]:
    """The documents whose snippets differ from the examples."""
    documents = []
    for path in [*ROOT.glob("*.md"), *ROOT.glob("manual/**/*.md")]:
        text = path.read_text()
        if (fresh := refreshed(text)) != text:
            documents.append(str(path.relative_to(ROOT)))
            if write:
                path.write_text(fresh)
    return documents


if __name__ == "__main__":
    write = sys.argv[1:] == ["--write"]
    documents = stale(write)
    for document in documents:
        print(f"{document}: {'updated' if write else 'a snippet differs from its example'}")
    sys.exit(1 if documents and not write else 0)
