# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each public header compiles alone, with both compilers.

If a source of the library includes a header first, every build of that source proves it. Only the
other headers are compiled here, and only their syntax is checked.
"""
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

COMPILERS = ["g++", "clang++-19"]
FLAGS = ["-std=c++23", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-DVERBATIM_CHECKED=1",
         "-Iinclude", "-x", "c++"]
FIRST_INCLUDE = re.compile(r'^#include ["<]([^">]+)[">]', re.MULTILINE)


def included_first(sources):
    """What the sources include before anything else."""
    found = (FIRST_INCLUDE.search(path.read_text()) for path in sources)
    return {match.group(1) for match in found if match}


def unproven(include, sources):
    """The headers under `include` that no source includes first, as code names them."""
    names = sorted(str(path.relative_to(include)) for path in include.rglob("*.hpp"))
    proven = included_first(sources)
    return [name for name in names if name not in proven]


def compile_all(run, folder, headers, processors):
    """(what was compiled, exit status, output) for each header and compiler."""
    folder.mkdir(parents=True, exist_ok=True)
    jobs = []
    for header in headers:
        # A separate file, because compilers warn about a header that is the main file.
        unit = folder / (header.replace("/", "-") + ".cpp")
        unit.write_text(f"#include <{header}>\n")
        jobs += [(f"{header} alone ({compiler})", [compiler, *FLAGS, unit])
                 for compiler in COMPILERS]
    with ThreadPoolExecutor(processors) as pool:
        results = pool.map(lambda job: run(job[1]), jobs)
        for (name, _), (status, output) in zip(jobs, results):
            yield name, status, output
