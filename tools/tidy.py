#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Style as a test: the house rules of CONTRIBUTING.md that a script can check.

Each function in RULES is one test, and each entry of BANNED. A line that has to break a rule
says why, in a comment on it: `// tidy: <reason>`. Length of functions and names: clang-tidy.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

import snippets

# Sources (<layer>/<name>.cpp) and whole layers without a test program, and the reason. A source
# that a test of another name covers is not listed here, because that test says so (COVERS).
PRELOADED = "lane preload: tests/preload/conventions.c, and Debian's own programs"
UNTESTED = {
    "preload": PRELOADED,
    "soft/context_operations.cpp": PRELOADED,
}
# In the comment at the top of a test: `Covers: <layer>/<name>.cpp, ...`.
COVERS = re.compile(r"^(?://|#| \*) Covers: (.+)$", re.MULTILINE)

# What each layer may include: itself and what is below. Only the seam and the programs know soft.
LAYERS = ["base", "provider", "verbs", "channel", "reactor", "integration", "multi", "network",
          "cli"]
ALLOWED = {layer: set(LAYERS[:rank + 1]) for rank, layer in enumerate(LAYERS)}
ALLOWED["provider"].add("soft")
ALLOWED["cli"].add("soft")
ALLOWED["soft"] = {"base", "soft"}
ALLOWED["preload"] = {"base", "soft", "preload"}

# The folders of src/soft: a folder may include itself and those before it. The files that all may
# include must themselves include only the first folder.
SOFT_FOLDERS = ["shared", "memory", "completer", "responder", "requester", "control", "faults",
                "abi"]
SOFT_HOOKS = {"soft/faults/hook.hpp"}
SOFT_LOOSE = {"sources.cmake"}  # The only files without a folder.

# Lines that a server of examples/ may have; see server_length.
SERVERS = {"echo_server": 24, "echo_asio": 30, "echo_epoll": 42}

LIBRARY = ("src/", "include/")
ABOVE_SEAM = tuple(place + layer for layer in LAYERS[2:] for place in ("src/", "include/verbatim/"))
BANNED = {  # rule: (where, what, what to do instead)
    "no stdout in the library": (LIBRARY, r"\b(?:printf|puts)\s*\(|\bstd::cout\b",
                                 "return it, or use verbatim/base/log.hpp"),
    "no exit in the library": (LIBRARY, r"(?<![\w.])_?exit\s*\(",
                               "return an Error, or check() for misuse"),
    "no environment with raised rights": (LIBRARY, r"\bgetenv\s*\(",
                                          "secure_getenv: who starts a setuid program is not it"),
    "no sleeping in tests": ("tests/", r"\b(?:u|nano)?sleep(?:_for|_until)?\s*\((?!.*// wait: \S)",
                             "wait for the event itself, or say why not: // wait: <reason>"),
    "one seam": (ABOVE_SEAM, r"\bis_soft\w*", "put the difference into the provider"),
    "no bare markers": ("", r"\b(?:TO" r"DO|FIX" r"ME)\b(?!\((?:perf|test|someday)\): \S)",
                        "write the kind, (perf|test|someday), a colon, and a sentence"),
}


def project_files():
    """All files of the project, committed or about to be, relative to the current directory."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], text=True,
                            capture_output=True, check=True).stdout.splitlines()
    return sorted(path for path in map(Path, listed) if path.is_file())


def text_of(path):
    return path.read_text(encoding="utf-8", errors="replace")


def lines_of(path):
    """(number, line) of the lines that no waiver covers."""
    for number, line in enumerate(text_of(path).splitlines(), 1):
        if not re.search(r"(//|#) tidy: \S", line):
            yield number, line


def is_cpp(path):
    return path.suffix in (".cpp", ".hpp", ".c", ".h")


def is_code(path):
    return (is_cpp(path) or path.suffix in (".py", ".sh", ".cmake", ".in")
            or path.name == "CMakeLists.txt" or text_of(path).startswith("#!"))


def layer_of(path):
    """The layer a file of the library belongs to, or None."""
    parts = path.parts
    at = 2 if parts[:2] == ("include", "verbatim") else 1 if parts[0] == "src" else 0
    return parts[at] if len(parts) > at + 1 and parts[at] in ALLOWED else None


def file_size(files):
    """a source file has at most 500 lines, a public header 250, a test 700, a CMakeLists.txt 120"""
    for path in filter(is_code, files):
        cap = {"tests": 700, "include": 250}.get(path.parts[0], 500)
        cap = 120 if path.name == "CMakeLists.txt" else cap
        if (count := len(text_of(path).splitlines())) > cap:
            yield f"{path}: {count} lines, the cap is {cap}: find the second noun in it"


def line_width(files):
    """a line of code has at most 100 columns"""
    for path in filter(is_code, files):
        for number, line in lines_of(path):
            if len(line) > 100:
                yield f"{path}:{number}: {len(line)} columns, the cap is 100"


def licence(files):
    """every file of code names its licence"""
    for path in filter(is_code, files):
        if "SPDX-License-Identifier: MIT OR Apache-2.0" not in text_of(path)[:200]:
            yield f"{path}:1: no line 'SPDX-License-Identifier: MIT OR Apache-2.0' at the top"


def header_contract(files):
    """every header has #pragma once, and a comment that says what it promises"""
    for path in files:
        for needed in ("#pragma once\n", "/// \\file ") if path.suffix == ".hpp" else ():
            if needed not in text_of(path):
                yield f"{path}:1: no '{needed.strip()}'"


def banned(files, where, what, instead):
    """The lines that contain a banned token."""
    for path in filter(is_code, files):
        for number, line in lines_of(path) if str(path).startswith(where) else ():
            if found := re.search(what, line):
                # A call in a comment does not count.
                if not found[0].endswith("(") or "//" not in line[:found.start()]:
                    yield f"{path}:{number}: '{found[0].strip()}': {instead}"


def layers(files):
    """an include points down or sideways, never up"""
    include = re.compile(r'\s*#\s*include\s*[<"](?:\.\./|src/|verbatim/)*(\w+)/')
    for path in filter(is_cpp, files):
        for number, line in lines_of(path) if layer_of(path) else ():
            found = include.match(line)
            if found and found[1] in ALLOWED.keys() - ALLOWED[layer_of(path)]:
                yield f"{path}:{number}: {layer_of(path)} must not include {found[1]}"


def soft_folders(files):
    """the folders of src/soft point down"""
    rank = {folder: number for number, folder in enumerate(SOFT_FOLDERS)}
    inside = [path for path in files if path.parts[:2] == ("src", "soft")]
    if all(len(path.parts) == 3 for path in inside):
        return  # Without folders there is no order.
    for path in inside:
        folder = path.parts[2] if len(path.parts) > 3 else None
        if folder not in rank:
            if folder or path.name not in SOFT_LOOSE:
                yield f"{path}: belongs into one of {', '.join(SOFT_FOLDERS)}"
            continue
        own = 0 if str(path.relative_to("src")) in SOFT_HOOKS else rank[folder]
        for number, line in lines_of(path) if is_cpp(path) else ():
            found = re.match(r'\s*#\s*include\s*"(soft/(?:(\w+)/)?[^"]*)"', line)
            if found and found[1] not in SOFT_HOOKS and rank.get(found[2], len(rank)) > own:
                yield f"{path}:{number}: {SOFT_FOLDERS[own]} must not include {found[1]}"


def short_name(path):
    """<layer>/<name>.cpp of a source; folders inside a layer do not count."""
    return f"{path.parts[1]}/{path.name}"


def test_per_source(files):
    """every source has tests/unit/<layer>/<name>_test.cpp, or a test that says it covers it"""
    sources, covered = {}, {}
    for path in (each for each in files if each.parts[0] == "src" and each.suffix == ".cpp"):
        if sources.setdefault(short_name(path), path) != path:
            yield f"{path}: {sources[short_name(path)]} has the same name"
    for path in files:
        for names in COVERS.findall(text_of(path)[:2000]) if path.parts[0] == "tests" else ():
            covered |= {name: path for name in names.split(", ")}
    for name, test in covered.items():
        if name not in sources:
            yield f"{test}: covers {name}, which is not there"
    for name in UNTESTED:
        if name not in sources and not Path("src", name).is_dir():
            yield f"tools/tidy.py: UNTESTED has {name}, which is not there"
    for name, path in sources.items():
        test = Path("tests/unit", path.parts[1], path.stem + "_test.cpp")
        if test not in files and not {name, path.parts[1]} & (UNTESTED.keys() | covered.keys()):
            yield f"{path}: no {test}, and no test has a comment 'Covers: {name}'"


def links(files):
    """every link between pages leads somewhere"""
    for path in (each for each in files if each.suffix == ".md"):
        for target in re.findall(r"\]\(([^)\s]+)\)", text_of(path)):
            name, _, anchor = target.partition("#")
            page = path.parent / name if name else path
            if re.match(r"[a-z]+:", target):  # another site
                continue
            if not page.exists():
                yield f"{path}: link to {target}: no such file"
            elif anchor and page.suffix == ".md" and anchor not in anchors_of(page):
                yield f"{path}: link to {target}: no such heading"


def anchors_of(page):
    """The names that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ +(.*)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).strip().replace(" ", "-") for each in headings}


def machine_paths(files):
    """no path that exists on one machine only"""
    for path in files:
        for number, line in lines_of(path):
            if found := re.search(r"(?<![\w.$}])/(?:work|root|home)/\S*", line):  # tidy: the rule
                yield f"{path}:{number}: '{found[0]}'"


def shell_syntax(files):
    """shell scripts parse"""
    for path in files:
        if re.match(r"#!.*\b(ba)?sh\b", text_of(path)):
            result = subprocess.run(["bash", "-n", path], capture_output=True, text=True)
            if result.returncode != 0:
                yield f"{path}: {result.stderr.strip()}"


def code_in_docs(_):
    """code in the docs is what the compiled examples say"""
    for page in snippets.stale():
        yield f"{page}: a snippet differs from its example: tools/snippets.py --write"


def server_length(files):
    """an echo server is as short as we say: without blank lines, comments, includes and main"""
    outside = re.compile(r"\s*$|\s*//|#include |namespace |}  // namespace")
    for path in files:
        most = SERVERS.get(path.stem) if path.parts[0] == "examples" else None
        lines = text_of(path).partition("\nint main(")[0].splitlines() if most else []
        if (count := sum(not outside.match(line) for line in lines)) > (most or 0):
            yield f"{path}: {count} lines of a server, the cap is {most}"


def lanes_in_docs(_):
    """the lanes of the docs are those of tools/lanes.py"""
    import lane_table  # Not above: lanes.py runs these rules.
    if lane_table.is_stale():
        yield f"{lane_table.PAGE}: the table of lanes is not that of lanes.py: " \
              "tools/lane_table.py --write"


def tests_in_docs(files):
    """every test that a page names is there"""
    sources = "".join(text_of(each) for each in files
                      if each.parts[0] == "tests" and each.suffix == ".cpp")
    known = {".".join(each) for each in re.findall(r"\bTEST(?:_[FP])?\((\w+),\s*(\w+)\)", sources)}
    for path in (each for each in files if each.suffix == ".md"):
        for name in re.findall(r"`([A-Z]\w+\.[A-Z]\w+)`", text_of(path)):
            if name not in known:
                yield f"{path}: no test {name}"


RULES = [file_size, line_width, licence, header_contract, layers, soft_folders, test_per_source,
         links,
         machine_paths, shell_syntax, code_in_docs, server_length, lanes_in_docs,
         tests_in_docs]


def check_all():
    """[(rule, its problems)], with the current directory at the root of the project."""
    files = project_files()
    return ([(check.__doc__, list(check(files))) for check in RULES]
            + [(name, list(banned(files, *each))) for name, each in BANNED.items()])


if __name__ == "__main__":
    os.chdir(Path(__file__).resolve().parent.parent)
    results = check_all()
    for name, problems in results:
        print(f"{'FAIL' if problems else 'ok  '} {name}", *problems, sep="\n  ")
    failed = sum(bool(problems) for _, problems in results)
    print(f"{len(results)} checks, {failed} failed")
    sys.exit(1 if failed else 0)
