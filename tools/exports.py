#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes and checks the version scripts exports/*.map, which list what our libraries export.

    tools/exports.py BUILD            exit status 1 if a map or a library is wrong
    tools/exports.py BUILD --write    writes the maps; any difference changes the interface

BUILD is a build of the preset `package`. A library exports what its public headers declare and its
objects define: functions that are not inline, variables, and the tables of classes with virtual
functions. What our other library and the program `verbatim` need beyond that has a separate
version, VERBATIM_PRIVATE. Everything else is hidden: templates of the standard library, JSON, the
software device. libclang reads the declarations.
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RELEASE = re.search(r"\bVERSION (\d+\.\d+)", (ROOT / "CMakeLists.txt").read_text().split(
    "project(")[1])[1]
PUBLIC, PRIVATE = f"VERBATIM_{RELEASE}", f"VERBATIM_PRIVATE_{RELEASE}"
# library: (folders of its public headers, where its objects are, whose objects also link it)
LAYERS = ["base", "provider", "verbs", "channel", "reactor", "integration", "multi", "soft"]
CLI = "cli"
NETWORK = "src/network/CMakeFiles/verbatim_network.dir"
LIBRARIES = {
    "verbatim": (LAYERS, ["CMakeFiles/verbatim.dir", "src/CMakeFiles/verbatim_engine.dir"],
                 [NETWORK, CLI]),
    "verbatim_network": (["network"], [NETWORK], [CLI]),
}
TABLE = re.compile(r"(?:vtable|VTT|typeinfo|typeinfo name) for (.*)")


def demangled(names):
    """{name: its demangled form}"""
    text = subprocess.run(["c++filt"], input="\n".join(names), text=True, capture_output=True,
                          check=True).stdout
    return dict(zip(names, text.splitlines()))


def symbols_of(build, folders, *options):
    objects = sorted(path for folder in folders for path in Path(build, folder).rglob("*.o"))
    text = subprocess.run(["nm", "--extern-only", "--format=just-symbols", *options, *objects],
                          text=True, capture_output=True, check=True).stdout
    return {line for line in text.splitlines() if line and not line.endswith(":")}


# ---- What the headers declare --------------------------------------------------------------------

def libclang():
    sys.path.append("/usr/lib/python3/dist-packages")  # the place in Debian, for any Python
    from clang import cindex  # not every importer of this module has it installed
    return cindex


def is_ours(cursor, folders):
    file = cursor.location.file
    if file is None:
        return False
    path = Path(file.name).resolve()
    include = ROOT / "include/verbatim"
    return include in path.parents and path.relative_to(include).parts[0] in folders


def declared(folders, *options):
    """(mangled names of functions and variables, full names of classes) that a program may use."""
    cindex = libclang()
    kinds = cindex.CursorKind
    functions = {kinds.FUNCTION_DECL, kinds.CXX_METHOD, kinds.CONSTRUCTOR, kinds.DESTRUCTOR,
                 kinds.CONVERSION_FUNCTION}
    scopes = {kinds.NAMESPACE, kinds.CLASS_DECL, kinds.STRUCT_DECL, kinds.LINKAGE_SPEC,
              kinds.FRIEND_DECL, kinds.UNEXPOSED_DECL}
    resources = subprocess.run(["clang++-19", "-print-resource-dir"], text=True,
                               capture_output=True, check=True).stdout.strip()
    headers = [path for folder in folders
               for path in sorted((ROOT / "include/verbatim" / folder).rglob("*.hpp"))]
    text = "".join(f'#include "{path}"\n' for path in headers)
    unit = cindex.Index.create().parse(
        "all.cpp", ["-std=c++23", f"-I{ROOT}/include", "-resource-dir", resources,
                    "-DASIO_HAS_CO_AWAIT=1", "-DASIO_HAS_STD_COROUTINE=1", *options],
        unsaved_files=[("all.cpp", text)])
    if wrong := [str(each) for each in unit.diagnostics if each.severity >= each.Error]:
        raise ValueError("\n".join(wrong))
    names, classes = set(), set()

    def walk(cursor, path):
        for child in cursor.get_children():
            if child.kind in functions and is_ours(child, folders):
                if child.get_definition() is None and not child.is_deleted_method():
                    names.add(child.mangled_name)
            elif child.kind == kinds.VAR_DECL and is_ours(child, folders):
                if child.get_definition() is None or not child.type.is_const_qualified():
                    names.add(child.mangled_name)
            elif child.kind in scopes:
                inner = f"{path}{child.spelling}::" if child.spelling else path
                if child.is_definition() and is_ours(child, folders):
                    classes.add(inner[:-2])
                if child.kind != kinds.NAMESPACE or child.spelling != "std":
                    walk(child, inner)

    walk(unit.cursor, "")
    return names, classes


def both_kinds(name):
    """A constructor or destructor has two symbols: for complete objects and for base objects."""
    return {name, re.sub(r"([CD])1(?=E)", r"\g<1>2", name)}


def wanted(build, library):
    """({version: {symbol: its demangled form}}, the symbols that only a checked build has)"""
    folders, objects, users = LIBRARIES[library]
    defined = demangled(sorted(symbols_of(build, objects, "--defined-only")))
    plain, classes = declared(folders)
    checked, _ = declared(folders, "-DVERBATIM_CHECKED=1")
    sanitized, _ = declared(folders, "-fsanitize=address")
    written = set(demangled(sorted(plain)).values())

    def is_public(text):
        table = TABLE.fullmatch(text)
        return table[1] in classes if table else text in written

    public = {name: text for name, text in defined.items() if is_public(text)}
    other = demangled(sorted(set().union(*map(both_kinds, (checked | sanitized) - plain))))
    needed = symbols_of(build, users, "--undefined-only")
    private = {name: text for name, text in defined.items()
               if name in needed and name not in public}
    return {PUBLIC: public | other, PRIVATE: private}, other.keys() - public.keys()


# ---- Maps and libraries --------------------------------------------------------------------------

def map_text(library, versions):
    lines = ["# SPDX-License-Identifier: MIT OR Apache-2.0",
             f"# What lib{library}.so exports. Written by tools/exports.py, which says what it is."]
    for version, names in versions.items():
        if not names:
            continue
        lines += [f"{version} {{", "  global:"]
        lines += [f"    {name};  # {text}" if text != name else f"    {name};"
                  for name, text in sorted(names.items(), key=lambda pair: (pair[1], pair[0]))]
        lines += ["  local:", "    *;"] if version == PUBLIC else []
        lines += ["};"]
    return "\n".join(lines) + "\n"


def exported(library):
    """{symbol: version} of a shared library; "" for none."""
    table = subprocess.run(["readelf", "--dyn-syms", "--wide", library], text=True,
                           capture_output=True, check=True).stdout
    found = {}
    for fields in map(str.split, table.splitlines()):
        if len(fields) >= 8 and fields[4] in ("GLOBAL", "WEAK", "UNIQUE") and \
                fields[6] not in ("UND", "ABS", "Ndx"):
            name, _, version = fields[7].partition("@")
            found[name] = version.lstrip("@")
    return found


def library_file(build, library):
    return next(build.rglob(f"lib{library}.so"))


def check_all(build, write=False):
    """[(check, its problems)]"""
    results = []
    for library in LIBRARIES:
        versions, rare = wanted(build, library)
        page = ROOT / "exports" / f"{library}.map"
        if write:
            page.write_text(map_text(library, versions))
        stale = page.read_text() != map_text(library, versions)
        results.append((f"exports/{library}.map is what the headers declare", [
            f"it is not: tools/exports.py {build} --write, and look at what changes"] * stale))
        promised = {name: version for version, names in versions.items() for name in names}
        found = exported(library_file(build, library))
        results.append((f"lib{library}.so exports all of its map", [
            f"{name} is missing, or has another version" for name, version in promised.items()
            if name not in rare and found.get(name) != version]))
        results.append((f"lib{library}.so exports nothing else", [
            f"{name} is exported" for name in found if name not in promised]))
        print(f"lib{library}.so exports {len(found)} symbols", file=sys.stderr)
    return results


if __name__ == "__main__":
    outcome = check_all(Path(sys.argv[1]), "--write" in sys.argv)
    for check, problems in outcome:
        print(f"{'FAIL' if problems else 'ok  '} {check}", *problems[:20], sep="\n  ")
    sys.exit(1 if any(problems for _, problems in outcome) else 0)
