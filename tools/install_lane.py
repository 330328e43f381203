# SPDX-License-Identifier: MIT OR Apache-2.0
"""Lane `install`: everything between the sources and a program of somebody else's that runs."""
import os
import re
import shutil
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import bare_root
import exports
import snippets
from gtest_report import SKIPPED, Case
from lane import Skip
from programs import Tests, start

ROOT = Path(__file__).resolve().parent.parent
CONSUMERS = ROOT / "tests/install"
PLACE = Path("build/install").absolute()
PACKAGE = Path("build/package").absolute()
COMPILERS = ("g++", "clang++-19")
ENVIRONMENT = {"VERBATIM_DEVICE": "soft0", "LC_ALL": "C"}
LIMIT_S = 120
ONE_AT_A_TIME = threading.Lock()  # The tutorial's program has a port of its own.


# ---- Programs of the documents -------------------------------------------------------------------

def program_of(page):
    """The example that a page explains, with the code as it stands on the page."""
    blocks = {(block["file"], block["name"]): block["code"]
              for block in snippets.BLOCK.finditer((ROOT / page).read_text())}
    file = next(iter(blocks))[0]
    text = (ROOT / file).read_text()
    for (of, name), code in blocks.items():
        if of == file:
            text = re.sub(rf"^( *// \[{name}\]\n).*?(?=^ *// \[/{name}\]\n)",
                          lambda found, code=code: found[1] + code, text, flags=re.S | re.M)
    return text


def programs():
    """{name: text} of what is built in every way."""
    found = {"README.md": program_of("README.md")}
    if (ROOT / "manual/tutorial.md").exists():
        found["manual/tutorial.md"] = program_of("manual/tutorial.md")
    return found


def problem_with(lane, page, program, inside=None):
    """Runs the program of a page; "" if it does what the page says."""
    run = inside or (lambda *command: lane.run(command, ENVIRONMENT | library_path(program),
                                               LIMIT_S))
    status, output = run(program)
    if status != 0 or (page == "README.md" and "hello, RDMA" not in output):
        return f"{output}\nexit status {status}"
    if inside or page == "README.md":
        return ""
    with ONE_AT_A_TIME:
        return between_two(lane, program)


def between_two(lane, program):
    """The tutorial's program as its reader starts it: one process listens, another dials."""
    server = start([program, "listen"], os.environ | ENVIRONMENT | library_path(program))
    tests = Tests(lane)
    try:
        if not tests.listens(7471, server):
            return "the server does not listen\n" + tests.finish(server, 1)[1]
        status, output = lane.run([program, "dial", "hello"],
                                  ENVIRONMENT | library_path(program), LIMIT_S)
        return "" if status == 0 and "olleh" in output else f"{output}\nexit status {status}"
    finally:
        server.terminate()
        tests.finish(server, 5)


def library_path(program):
    """Where a program that pkg-config's words have linked finds the library; CMake tells it."""
    prefix = Path(program).parent / "prefix"
    return {"LD_LIBRARY_PATH": prefix.read_text()} if prefix.exists() else {}


# ---- Consumers -----------------------------------------------------------------------------------

def fresh(name, main):
    """An empty folder with what somebody writes to use the library: two files."""
    folder = PLACE / re.sub(r"\W+", "_", name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "main.cpp").write_text(main)
    return folder


def with_cmake(lane, folder, consumer, compiler, *options, build=None):
    """(problem, what the configuration printed)"""
    build = build or folder / "build"
    shutil.copy(CONSUMERS / consumer / "CMakeLists.txt", folder)
    status, said = lane.run(["cmake", "-S", folder, "-B", build, "-G", "Ninja",
                             f"-DCMAKE_CXX_COMPILER={compiler}", *options])
    if status == 0:
        status, output = lane.run(["cmake", "--build", build, "--target", "program"])
        said += output if status else ""
    return (said if status else ""), said


def check_at_once(lane, work, cases):
    """work(*case) is (name, problem); most of it is a compiler's."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, problem in pool.map(lambda case: work(*case), cases):
            lane.check(name, bool(problem), problem)


def each_program():
    return [(compiler, page, text) for compiler in COMPILERS for page, text in programs().items()]


def find_package(lane, prefix, how):
    def work(compiler, page, text):
        name = f"find_package, {how}, {compiler}, {page}"
        folder = fresh(name, text)
        problem, _ = with_cmake(lane, folder, "find_package", compiler,
                                f"-DCMAKE_PREFIX_PATH={prefix}")
        return name, problem or problem_with(lane, page, folder / "build/program")

    check_at_once(lane, work, each_program())


def with_make(lane, folder, consumer, compiler, prefix, *options):
    shutil.copy(CONSUMERS / consumer / "Makefile", folder)
    libraries = next(Path(prefix).rglob("pkgconfig")).parent
    (folder / "prefix").write_text(str(libraries))
    status, output = lane.run(["make", "-C", folder, f"CXX={compiler} {' '.join(options)}"],
                              {"PKG_CONFIG_PATH": str(libraries / "pkgconfig")})
    return output if status else ""


def pkg_config(lane, prefix, how):
    def work(compiler, page, text):
        name = f"pkg-config, {how}, {compiler}, {page}"
        folder = fresh(name, text)
        problem = with_make(lane, folder, "pkg_config", compiler, prefix)
        return name, problem or problem_with(lane, page, folder / "program")

    check_at_once(lane, work, each_program())


def network(lane, prefix):
    """verbatim::network, with a program that is a job of one rank."""
    text = (ROOT / "examples/starting.cpp").read_text()
    for compiler in COMPILERS:
        folder = fresh(f"network {compiler}", text)
        problem, _ = with_cmake(lane, folder, "network", compiler, f"-DCMAKE_PREFIX_PATH={prefix}")
        problem = problem or problem_with(lane, "starting", folder / "build/program", lambda path:
                                          lane.run([path], ENVIRONMENT, LIMIT_S))
        lane.check(f"find_package of verbatim::network, {compiler}", bool(problem), problem)
        problem = with_make(lane, folder, "network", compiler, prefix)
        status, output = lane.run([folder / "program"],
                                  ENVIRONMENT | library_path(folder / "program"), LIMIT_S)
        lane.check(f"pkg-config verbatim-network, {compiler}", problem or status, problem or output)


def within_a_shared_library(lane, static):
    """A user's own shared library can take libverbatim.a in."""
    for compiler in COMPILERS:
        name = f"libverbatim.a within a shared library, {compiler}"
        problem = with_make(lane, fresh(name, programs()["README.md"]), "pkg_config", compiler,
                            static, "-shared", "-fPIC")
        lane.check(name, bool(problem), problem)


# What CMake says by itself; a library within another project adds nothing.
QUIET = re.compile(r"-- (?:The C(?:XX)? compiler identification|Detecting C|Check for working C|"
                   r"Configuring done|Generating done|Build files have been written)")


def within(lane):
    """add_subdirectory and FetchContent: the sources are built as a part of another project."""
    text = programs()["README.md"]
    # Those of the presets, so that ccache has the objects already.
    flags = ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG",
             "-DBUILD_SHARED_LIBS=ON", "-DVERBATIM_WERROR=ON"]
    if shutil.which("ccache"):
        flags += [f"-DCMAKE_{language}_COMPILER_LAUNCHER=ccache" for language in ("C", "CXX")]
    where = {"subproject": "VERBATIM_FOLDER", "fetch_content": "FETCHCONTENT_SOURCE_DIR_VERBATIM"}
    for consumer, compiler in (("subproject", "g++"), ("subproject", "clang++-19"),
                               ("fetch_content", "g++")):
        name = f"{consumer}, {compiler}"
        folder = fresh(name, text)
        # Kept, as it is a build of the whole library. As deep as build/package: ccache may see
        # paths that are relative to where the compiler runs.
        build = Path(f"build/install-{consumer}-{compiler}").absolute()
        problem, said = with_cmake(lane, folder, consumer, compiler, f"-D{where[consumer]}={ROOT}",
                                   *flags, build=build)
        problem = problem or problem_with(lane, "README.md", build / "program")
        lane.check(name, bool(problem), problem)
        noise = [line for line in said.splitlines() if line and not QUIET.match(line)]
        lane.check(f"{name}: no noise", len(noise), "\n".join(noise))
        status, output = lane.run(["cmake", "--install", build, "--prefix", folder / "installed"])
        lane.check(f"{name}: installs nothing", status or (folder / "installed").exists(), output)


# ---- Wrong use -----------------------------------------------------------------------------------

def errors(output):
    return [line for line in output.splitlines() if re.search(r"\berror: ", line)]


def old_language(lane):
    """Each public header, compiled as C++20, says one thing."""
    headers = sorted((ROOT / "include").rglob("*.hpp"))

    def problem(compiler, header):
        name = header.relative_to(ROOT / "include")
        status, output = lane.run([compiler, "-std=c++20", "-fsyntax-only", f"-I{ROOT}/include",
                                   f'-DVERBATIM_HEADER="{name}"', CONSUMERS / "language.cpp"])
        if status == 0 or len(errors(output)) != 1 or "Verbatim needs C++23" not in output:
            return f"{name}:\n" + "\n".join(errors(output)[:3])
        return ""

    for compiler in COMPILERS:
        # clang takes the same way through the headers: some of them are enough.
        some = headers if compiler == "g++" else headers[::8]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = pool.map(problem, [compiler] * len(some), some)
            wrong = [each for each in found if each]
        lane.check(f"C++20 is one error, {compiler}", len(wrong), "\n".join(wrong))


def mixed(lane, shared, static):
    """A checked program and a release library: the linker says what is wrong."""
    text = programs()["README.md"]
    wanted = "this_program_has_VERBATIM_CHECKED_but_its_verbatim_library_has_not"

    def work(prefix, how, compiler, more):
        name = f"checked program, release library, {how}, {compiler} {more}".rstrip()
        output = with_make(lane, fresh(name, text), "pkg_config", compiler, prefix,
                           "-DVERBATIM_CHECKED=1", *more.split())
        found = re.findall(r"undefined reference to [`'](\w+)", output)
        # The library also lacks functions that only checked builds have.
        return name, "" if wanted in found else output or "it links"

    check_at_once(lane, work, [
        (prefix, how, compiler, more) for prefix, how in ((shared, "shared"), (static, "static"))
        for compiler, more in (("g++", ""), ("g++", "-O2 -flto"),
                               ("g++", "-ffunction-sections -fdata-sections -Wl,--gc-sections"),
                               ("clang++-19", "-O2 -Wl,--gc-sections"))])


def tags(lane, static):
    """The other direction, with a library that differs from a checked one in all but its name."""
    names = {}
    checked = PLACE / "same_build.o"
    for how in ("", "-fsanitize=address", "-fsanitize=thread", "-DVERBATIM_CHECKED=1"):
        for compiler in COMPILERS:
            lane.must(compiler, "-std=c++23", f"-I{ROOT}/include", *how.split(), "-c",
                      str(ROOT / "src/channel/same_build.cpp"), "-o", str(checked))
            _, output = lane.run(["nm", "--defined-only", "--extern-only", checked])
            names.setdefault(how, set()).update(re.findall(r" R (this_program_\w+)", output))
    lane.check("checked, sanitized and other builds have names of their own",
               [len(found) for found in names.values()] != [1] * 4 or
               len(set.union(*names.values())) != 3, str(names))
    prefix = PLACE / "static_checked"
    shutil.rmtree(prefix, ignore_errors=True)
    shutil.copytree(static, prefix)
    library = next(prefix.rglob("libverbatim.a"))
    lane.must("ar", "d", str(library), "same_build.cpp.o")
    lane.must("ar", "r", str(library), str(checked))
    for compiler in COMPILERS:
        name = f"release program, checked library, {compiler}"
        output = with_make(lane, fresh(name, programs()["README.md"]), "pkg_config", compiler,
                           prefix)
        found = re.findall(r"undefined reference to [`'](\w+)", output)
        lane.check(name, set(found) != names[""] or len(found) != 1, output or "it links")


# ---- The build itself ----------------------------------------------------------------------------

def defaults(lane):
    """`cmake -S . -B build` as anybody writes it."""
    build = PLACE / "plain"
    shutil.rmtree(build, ignore_errors=True)
    status, output = lane.run(["cmake", "-S", ROOT, "-B", build])
    cache = (build / "CMakeCache.txt").read_text() if status == 0 else ""
    wanted = ["CMAKE_BUILD_TYPE:STRING=Release", *(f"VERBATIM_BUILD_{part}:BOOL=OFF" for part in
                                                   ("TESTS", "BENCH", "EXAMPLES")),
              *(f"VERBATIM_BUILD_{part}:BOOL=ON" for part in ("NETWORK", "CLI", "PRELOAD"))]
    missing = [line for line in wanted if line not in cache]
    lane.check("a plain configuration is a release of the library and its tool", len(missing),
               f"{output}\nnot in the cache: {missing}")
    status, output = lane.run(["cmake", "-S", ROOT, "-B", build,
                               "-DCMAKE_DISABLE_FIND_PACKAGE_Sodium=ON",
                               "-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON"])
    said = all(part in output for part in ("libsodium-dev", "libfmt-dev", "VERBATIM_BUILD_CLI=OFF",
                                           "VERBATIM_BUILD_NETWORK=OFF"))
    lane.check("what is missing is named at once, with a way round it",
               status == 0 or not said or output.count("CMake Error") != 1, output)


def documented(lane):
    """The lines of the guide are those of the consumers above."""
    page = (ROOT / "manual/guide/installing.md").read_text()
    for file in sorted(CONSUMERS.glob("*/CMakeLists.txt")):
        lines = [line for line in file.read_text().splitlines()
                 if line and not line.startswith(("#", "set(VERBATIM_FOLDER"))]
        missing = [line for line in lines
                   if line.replace('"${VERBATIM_FOLDER}" verbatim', "verbatim") not in page]
        lane.check(f"installing.md has the lines of {file.parent.name}", len(missing),
                   "\n".join(missing))


def recipes(lane):
    """What can be said of the recipes of vcpkg and Conan without either of them."""
    lane.check("recipes", *lane.run([sys.executable, ROOT / "tests/install/recipes_test.py"]))


# ---- Packages ------------------------------------------------------------------------------------

def pack(lane):
    packages = PACKAGE / "packages"
    shutil.rmtree(packages, ignore_errors=True)
    status, output = lane.run(["cpack", "--config", PACKAGE / "CPackConfig.cmake"])
    found = sorted(packages.glob("*.deb"))
    lane.check("the packages are made", status or len(found) != 5, output)
    if shutil.which("lintian"):
        _, output = lane.run(["lintian", "--fail-on", "error", "--tag-display-limit", "0",
                              "--suppress-tags", "bogus-mail-host-in-debian-changelog,"
                              "bogus-mail-host", *found])
        wrong = [line for line in output.splitlines() if line.startswith("E: ")]
        lane.check("lintian has no error", len(wrong), "\n".join(wrong))
    return found


# What stops a program in a bare root: (name, how it comes about, what the doctor must say of it).
# A closed port needs a device of the kernel: lane rxe shows it (tests/cli/rxe_guest.py).
BROKEN = [
    ("a device that there is not", "export VERBATIM_DEVICE=mlx9", "VERBATIM_DEVICE=mlx9"),
    ("a full /dev/shm", "mount -t tmpfs -o size=64k full /dev/shm; "
     "head -c 64K /dev/zero >/dev/shm/fill || true", "/dev/shm"),
    ("a directory of another user", "mkdir -p /srv/other; chown 4242 /srv/other; "
     "export VERBATIM_SOFT_DIR=/srv/other", "4242"),
]


def in_bare_root(lane, packages):
    """Where nothing is installed: our packages, what they ask for, and a compiler."""
    begin = time.monotonic()
    bare_root.make(lane)
    home = bare_root.ROOT / "srv"
    for package in packages:
        shutil.copy(package, home)

    def inside(folder, *command):
        return bare_root.run(lane, folder, "env", *map("=".join, ENVIRONMENT.items()), *command)

    def check(name, folder, *command, wanted=""):
        status, output = inside(folder, *command)
        lane.check(f"bare root: {name}", status or wanted not in output, output)

    files = [f"./{package.name}" for package in packages]
    status, output = inside("/srv", "apt-get", "-qq", "update")
    if status != 0:
        raise Skip(f"apt-get update: {output.strip().splitlines()[-1:]}")
    check("apt installs the packages", "/srv", "apt-get", "-qqy", "install", *files)
    check("the program runs", "/srv", "verbatim", "--version", wanted="0.1")
    check("nothing else is needed to run it", "/srv", "sh", "-c",
          "! ldd /usr/bin/verbatim | grep 'not found'")
    check("apt installs compilers", "/srv", "apt-get", "-qqy", "install", "g++", "clang-19",
          "cmake", "make", "pkg-config", "ibverbs-utils")
    bare_root.keep_downloads()
    check("verbatim preload", "/srv", "verbatim", "preload", "--", "ibv_devices", wanted="soft0")
    for compiler in COMPILERS:
        for number, (page, text) in enumerate(programs().items()):
            folder = f"/srv/{compiler}-{number}"
            for consumer in ("find_package/CMakeLists.txt", "pkg_config/Makefile"):
                target = Path(f"{bare_root.ROOT}{folder}", Path(consumer).name)
                target.parent.mkdir(exist_ok=True)
                shutil.copy(CONSUMERS / consumer, target)
            Path(f"{bare_root.ROOT}{folder}", "main.cpp").write_text(text)
            check(f"find_package, {compiler}, {page}", folder, "sh", "-c",
                  f"cmake -B build -DCMAKE_CXX_COMPILER={compiler} && cmake --build build")
            check(f"pkg-config, {compiler}, {page}", folder, "make", f"CXX={compiler}")
            for program in ("build/program", "./program"):
                problem = problem_with(lane, page, program, lambda path: inside(folder, path))
                lane.check(f"bare root: {program} of {page} runs, {compiler}", bool(problem),
                           problem)
            if page != "README.md":
                between = ("build/program listen & server=$!; for i in $(seq 600); do "
                           "build/program dial hello && break; sleep 0.1; done; kill $server")
                check(f"two processes, {page}, {compiler}", folder, "bash", "-c", between,
                      wanted="olleh")
    for name, cause, wanted in BROKEN:
        check(f"the program fails and the doctor names {name}", f"/srv/{COMPILERS[0]}-0", "sh",
              "-c", f"{cause}; if build/program; then exit 3; fi; "
              "if verbatim doctor; then exit 4; fi", wanted=wanted)
    check("the doctor knows a small limit of locked memory", "/srv", "setpriv", "--reuid=65534",
          "--regid=65534", "--clear-groups", "sh", "-c", "ulimit -l 16; verbatim doctor",
          wanted="16 KiB")
    print(f"{lane.name}: bare root, {time.monotonic() - begin:.0f} s")


def prefix_of(lane, build, name, *components):
    """Installs components there, and nothing else."""
    prefix = PLACE / name
    shutil.rmtree(prefix, ignore_errors=True)
    for component in components:
        lane.must("cmake", "--install", str(build), "--prefix", str(prefix), "--component",
                  component)
    return prefix


def install(lane):
    """The defaults of the build, what shared libraries export, one clear error for wrong use;
    find_package, pkg-config, a subproject and FetchContent with both compilers; the Debian packages
    in a bare root. Each builds and runs the programs of README.md and of the tutorial."""
    lane.build("package", "all")
    lane.build("release", "verbatim")
    lane.build("release-clang", "verbatim")  # within() finds its objects in ccache.
    PLACE.mkdir(parents=True, exist_ok=True)
    for check, problems in exports.check_all(PACKAGE):
        lane.check(check, len(problems), "\n".join(problems[:20]))
    shared = prefix_of(lane, PACKAGE, "shared", "library", "dev", "network", "network-dev")
    static = prefix_of(lane, Path("build/release"), "static", "dev")
    for prefix, how in ((shared, "shared"), (static, "static")):
        find_package(lane, prefix, how)
        pkg_config(lane, prefix, how)
    network(lane, shared)
    within_a_shared_library(lane, static)
    defaults(lane)
    documented(lane)
    old_language(lane)
    tags(lane, static)
    mixed(lane, shared, static)
    recipes(lane)
    packages = pack(lane)
    within(lane)
    try:
        in_bare_root(lane, packages)
    except Skip as reason:
        lane.add(Case("the packages in a bare root", SKIPPED, str(reason)))
    finally:
        shutil.rmtree(bare_root.ROOT, ignore_errors=True)
