# SPDX-License-Identifier: MIT OR Apache-2.0
"""clang-tidy over the sources of the library, several to a translation unit.

clang-tidy spends most of its time on the headers of the standard library, which it reads again for
each file. Many files together therefore take little longer than a few. Files that do not compile
together, because two define a helper of the same name, are split into halves until they do.
"""
import json
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BATCH = 32
CANNOT_COMPILE = "[clang-diagnostic-error]"
# A unit includes sources on purpose.
COMMAND = ["clang-tidy-19", "--quiet", "--checks=-bugprone-suspicious-include"]


class Unit:
    """Sources with the same flags, checked as one file."""

    def __init__(self, sources, flags, folder):
        self.sources, self.flags, self.folder = sources, flags, folder

    def halves(self):
        middle = len(self.sources) // 2
        return [Unit(part, self.flags, self.folder)
                for part in (self.sources[:middle], self.sources[middle:])]

    def write(self):
        """Writes the file and a compilation database for it. A single source is itself the file."""
        name = "-".join([self.sources[0].stem, str(len(self.sources))])
        place = self.folder / self.sources[0].parent / name
        place.mkdir(parents=True, exist_ok=True)
        file = self.sources[0].resolve()
        if len(self.sources) > 1:
            file = (place / "unit.cpp").resolve()
            file.write_text("".join(f'#include "{path.resolve()}"\n' for path in self.sources))
        entry = {"directory": str(Path.cwd()), "file": str(file),
                 "arguments": [*self.flags, "-c", str(file)]}
        (place / "compile_commands.json").write_text(json.dumps([entry]))
        return place, file


def flags_of(entry):
    """The command of a compilation without the file, the output and the cache."""
    words = shlex.split(entry.get("command", "")) or entry["arguments"]
    words = words[1:] if "ccache" in words[0] else words
    kept, skip = [], 0
    for word in words:
        if skip or word in ("-o", "-c"):
            skip = 0 if skip else 1
        else:
            kept.append(word)
    return tuple(kept)


def units(build, sources):
    """Batches of the sources, all of which are in the build's database."""
    folder = Path(build, "clang-tidy")
    database = json.loads(Path(build, "compile_commands.json").read_text())
    flags = {Path(entry["file"]).resolve(): flags_of(entry) for entry in reversed(database)}
    alike = {}
    for path in sources:
        alike.setdefault(flags[path.resolve()], []).append(path)
    for same, paths in alike.items():
        for first in range(0, len(paths), BATCH):
            yield Unit(paths[first:first + BATCH], same, folder)


def look(run, unit):
    """[(sources, status, output)]; `run` runs a command."""
    place, file = unit.write()
    status, output = run([*COMMAND, "-p", place, file])
    if status != 0 and CANNOT_COMPILE in output and len(unit.sources) > 1:
        return [result for half in unit.halves() for result in look(run, half)]
    return [(unit.sources, status, output)]


def look_at_all(run, build, sources, processors):
    """The results of all units, as they come."""
    with ThreadPoolExecutor(processors) as pool:
        for results in pool.map(lambda unit: look(run, unit), units(build, sources)):
            yield from results
