#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs lanes: groups of tests that need the same build and the same kind of machine.

Use it through ./test, which says how. One function per lane; each adds its tests to the lane.
"""
import json
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gtest_report
import headers_alone
import tidy as style_rules
from ahead import ahead, build_command
from clang_tidy import look_at_all
from cookbook_lane import cookbook
from docs_lane import check_site
from gtest_report import FAILED, PASSED, SKIPPED, Case, tail
from install_lane import install as installing
from lane import LOGS, Broken, Lane, Skip, stop
from preload_lane import preload
from programs import BUILD, PROGRAM, Tests

ROOT = Path(__file__).resolve().parent.parent
STRESS = "VERBATIM_STRESS"  # how many times as long the tests with stress run
CANNOT = 77  # exit status of a lane, a program or the VM that cannot run here


def programs(preset, lane):
    """What CMake registered for this lane (cmake/testing.cmake), as paths relative to ROOT."""
    lines = Path("build", preset, "tests.manifest").read_text().splitlines()
    pairs = [line.split("\t") for line in lines]
    return [Path(path).relative_to(ROOT) for name, path in pairs if name == lane]


def last_line(output):
    return (output.strip().splitlines() or ["no reason given"])[-1]


def in_guest(lane, out, *command):
    """Runs a command where there is an RDMA device: in the virtual machine."""
    print(f"{lane.name}: running in the virtual machine")
    out.mkdir(parents=True, exist_ok=True)
    for old in out.iterdir():
        old.unlink()
    env = [f"--env={STRESS}={os.environ[STRESS]}"] if STRESS in os.environ else []
    status, output = lane.run(
        ["tools/vm/run", f"--timeout={lane.most_s():.0f}", *env, "--out", out, "--", *command])
    if status == CANNOT:
        raise Skip(last_line(output))
    return status, output


# ---- Lanes ---------------------------------------------------------------------------------------
# The docstrings are the table of manual/testing.md: tools/lane_table.py --write.

UNIT_TESTS = ["unit_tests", "channel_tests", "soft_tests", "model_off_tests", "misuse_tests",
              "misuse_channel_tests"]
# What a lane builds, in its order: (preset, targets).
BUILDS = {
    "unit": [("dev", UNIT_TESTS)],
    "compile-fail": [("dev", ["compile_fail_tests"])],
    "soft": [("release", ["conformance", "survival_tests", "soak_tests", "misuse_channel_tests"]),
             ("dev", ["survival_tests"])],
    "soak": [("release", ["soak_tests"])],
    "preload": [("release", ["preload_tests"])],
    "cookbook": [("release", ["cookbook_programs"])],
    "asan": [("asan", [*UNIT_TESTS, "misuse_msan_tests", "conformance"]),
             ("dev", ["misuse_asan_tests", "misuse_valgrind_tests",
                      "misuse_channel_valgrind_tests"])],
    "tsan": [("tsan", ["misuse_tests", "misuse_channel_tests", "conformance"]),
             ("dev", ["misuse_tsan_tests"])],
    "overhead": [("release", ["overhead_driver"]), ("release-clang", ["overhead_driver"])],
    "async": [("release", ["async_driver"])],
    "rxe": [("release", ["conformance", "verbatim_cli", "tutorial"])],
    "network": [("release", ["network_tests"]), ("asan", ["fuzz_all"])],
    "examples": [("release", ["examples/all", "servers_tests"])],
    "cli": [("release", ["cli_tests"])],
    "docs": [("release", ["verbatim_cli"])],
    "install": [("package", ["all"]), ("release", ["verbatim"]), ("release-clang", ["verbatim"])],
}
PROCESSORS = len(os.sched_getaffinity(0))
# Each of their tests is a compiler or a program of its own, so several can run at a time.
SHARDED = ("compile_fail", "misuse")


def build(lane, number=0):
    preset, targets = BUILDS[lane.name][number]
    lane.build(preset, *targets)


def run_tests(lane, preset, programs_of, env=None, prefix=""):
    """Runs the GoogleTest programs registered for a lane; returns what they printed. The prefix
    tells the tests of a program from those of its other builds."""
    outputs = []
    for program in programs(preset, programs_of):
        shards = PROCESSORS if program.name.startswith(SHARDED) else 1

        def run_shard(index):
            part = f".{index}" if shards > 1 else ""
            report = LOGS / f"{lane.name}.{preset}.{program.name}{part}.json"
            report.unlink(missing_ok=True)
            share = {"GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(index)}
            status, output = lane.run([program, f"--gtest_output=json:{report}"],
                                      (env or {}) | (share if shards > 1 else {}))
            return gtest_report.cases(report, output, status, program.name), output

        with ThreadPoolExecutor(shards) as pool:
            for cases, output in pool.map(run_shard, range(shards)):
                outputs.append(output)
                for case in cases:
                    lane.add(case._replace(name=prefix + case.name))
    return outputs


def unit(lane):
    """Tests that need no device, on the `null` and `faulty` providers; built with g++."""
    build(lane)
    run_tests(lane, "dev", "unit")


def compile_fail(lane):
    """Misuse that must not compile, with both compilers: each case checks for the expected
    message, and a control must compile."""
    build(lane)
    run_tests(lane, "dev", "compile-fail")


def on_soft0(lane, preset, variants, env=None):
    """The conformance suite on the software device, once per variant of its environment.

    Several variants run at a time, because they mostly wait. Each has its own directory, so that
    they do not see each other; the device creates and removes it.
    """
    def run_variant(number, program):
        report = LOGS / f"{lane.name}.{program.name}.{number}.json"
        report.unlink(missing_ok=True)
        place = Path("/dev/shm", f"verbatim-{lane.name}-{os.getpid()}-{number}")
        apart = {"VERBATIM_SOFT_DIR": str(place)} if place.parent.is_dir() else {}
        command = [program, "--device", "soft0", f"--gtest_output=json:{report}"]
        status, output = lane.run(command, {**(env or {}), **apart, **variants[number]})
        return gtest_report.cases(report, output, status, program.name)

    for program in programs(preset, "rxe"):
        with ThreadPoolExecutor(PROCESSORS) as pool:
            runs = pool.map(run_variant, range(len(variants)), [program] * len(variants))
            for variant, cases in zip(variants, runs):
                print(f"{lane.name}: conformance on soft0", *map("=".join, variant.items()))
                for case in cases:
                    lane.add(case)


DEFERRED = {"VERBATIM_SOFT_MODE": "deferred"}
ON_REACTOR = {"VERBATIM_TEST_ON_REACTOR": "1",
              "GTEST_FILTER": "*Channel*:*Scope*:Owners*:Element*:Keepalive*"}


# Only a checked build checks the order of locks. Of what runs longest, a part is enough there.
CHECKED = {"GTEST_FILTER": "-" + ":".join([
    "*StoppedSender.*_own_*", "*StoppedSender.*connected_shared_1000",
    "*KilledDatagramSender.*_own_*", "*KilledDatagramSender.*_1000",
    "*/KilledSender.*/16", "*/KilledSender.*/8000", "ReactorChurn.*", "Scribbled.*"])}


def soft(lane):
    """The conformance suite on `soft0`: immediate and deferred, each memory path, both link layers;
    channels also on one Reactor; what killed processes leave, most of it also in a checked build;
    20 seconds of `soak`; misuse in a release build."""
    build(lane)
    on_soft0(lane, "release", [{}, DEFERRED, {"VERBATIM_SOFT_MEMORY": "process"},
                               {"VERBATIM_SOFT_MEMORY": "relay"}, {"VERBATIM_SOFT_LINK": "eth"},
                               ON_REACTOR])
    run_tests(lane, "release", "soft")
    show("".join(run_tests(lane, "release", "soak")), "soak: ")
    build(lane, 1)
    run_tests(lane, "dev", "soft", CHECKED, "checked: ")


def soak(lane):
    """Part of `long` only. For ten minutes, clients on `soft0` come, go and are killed; what the
    servers hold must not grow with the number of clients."""
    build(lane)
    show("".join(run_tests(lane, "release", "soak", {"VERBATIM_SOAK_S": "600"})), "soak: ")


def show(output, begin):
    """The lines in which a program reports what it did, such as the number of clients."""
    for line in output.splitlines():
        if line.startswith(begin):
            print(line)


def asan(lane):
    """Unit tests and conformance on `soft0` with clang, AddressSanitizer, LeakSanitizer and UBSan;
    misuse of memory in flight also with g++, MemorySanitizer and Valgrind."""
    env = {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1",
           "ASAN_SYMBOLIZER_PATH": "/usr/bin/llvm-symbolizer-19"}
    build(lane)
    run_tests(lane, "asan", "unit", env)
    run_tests(lane, "asan", "asan", env)
    build(lane, 1)
    run_tests(lane, "dev", "asan")
    on_soft0(lane, "asan", [{}, DEFERRED], env)


def tsan(lane):
    """Conformance on `soft0` with clang and ThreadSanitizer; misuse of memory in flight also with
    g++."""
    env = {"TSAN_OPTIONS": "second_deadlock_stack=1 "
           "external_symbolizer_path=/usr/bin/llvm-symbolizer-19"}
    build(lane)
    run_tests(lane, "tsan", "tsan", env)
    build(lane, 1)
    run_tests(lane, "dev", "tsan")
    on_soft0(lane, "tsan", [{}, DEFERRED], env)


def rxe(lane):
    """On Soft-RoCE, the kernel's software device, in a virtual machine: the conformance suite; each
    subcommand of `verbatim` that looks or measures, with the device as it should be, then with its
    port closed, another device named, little memory that may be locked, and its node closed."""
    build(lane)
    for program in programs("release", "rxe"):
        out = Path("build/guest", program.name)
        status, output = in_guest(lane, out, program, "--device", "rxe0",
                                  f"--gtest_output=json:{out}/report.json")
        for case in gtest_report.cases(out / "report.json", output, status, program.name):
            lane.add(case)
    status, output = in_guest(lane, Path("build/guest/cli"), "tests/cli/rxe_guest.py", PROGRAM,
                              BUILD / "examples/tutorial")
    Tests(lane).lines("verbatim", status, output)


def examples(lane):
    """Every program in `examples/`, on `soft0` and, in the virtual machine, on Soft-RoCE; the
    servers with 512 clients in another process (32 on Soft-RoCE)."""
    build(lane)
    names, out = programs("release", "examples"), Path("build/guest/examples")
    for name in names:
        status, output = lane.run([name], {"VERBATIM_DEVICE": "soft0"})
        show(output, "served: ")
        lane.check(f"{name.name} on soft0", status, output)
    programs_in_guest(lane, out, len(names), "tools/run_examples.sh", out, *names)


def programs_in_guest(lane, out, count, *command):
    """A command that runs the programs and writes their verdicts to out/results."""
    status, output = in_guest(lane, out, *command)
    results = out / "results"
    lines = results.read_text().splitlines() if results.exists() else []
    for line in lines:
        name, code = line.split()
        text = (out / f"{name}.log").read_text(errors="replace")
        if int(code) == CANNOT:
            lane.add(Case(name, SKIPPED, last_line(text)))
        else:
            lane.check(name, int(code), f"{text}\nexit status {code}")
    if missing := count - len(lines):
        raise Broken(f"{tail(output)}\n{missing} programs did not run, exit status {status}")


# What `verbatim run` starts in the virtual machine.
ON_RXE = ["all_to_all", "broadcast_tree", "event_builder", "network", "network_barrier", "ring"]


def network(lane):
    """The ranks of a job: sessions, barriers (every interleaving of small ones), nodes, starting
    under `verbatim run` and mpirun, 200 rounds of `kill -9`; the examples with 2 to 8 ranks, and on
    Soft-RoCE in the virtual machine with 2 and 4; libFuzzer on the decoders of network input."""
    build(lane)
    run_tests(lane, "release", "network")
    folder, out = Path("build/release"), Path("build/guest/network")
    programs_in_guest(lane, out, 2 * len(ON_RXE), "tools/run_ranks.sh", out,
                      folder / "bin/verbatim", *(folder / "examples" / name for name in ON_RXE))
    build(lane, 1)
    fuzz(lane, Path("build/asan"))


def fuzz(lane, folder):
    """Each decoder for a minute, starting from the corpus of the repository."""
    names = [path.stem for path in sorted(Path("tests/fuzz").glob("*.cpp"))]
    with ThreadPoolExecutor(PROCESSORS) as pool:
        results = pool.map(lambda name: lane.run(["tests/fuzz/run_all", folder, name]), names)
        for name, (status, output) in zip(names, results):
            print(output.strip())
            lane.check(f"fuzz {name}", status, output)


def cli(lane):
    """The program `verbatim`: correct and incorrect use of each subcommand; live views in a
    pseudo-terminal."""
    build(lane)
    run_tests(lane, "release", "cli")


def docs(lane):
    """The site of `./docs`: no warning, every link and anchor, code and errors as in the sources,
    nothing loaded from elsewhere; with Chromium, pages that fit a phone and a desk,
    and the search."""
    build(lane)
    check_site(lane)


def style(lane):
    """Part of `quick`. clang-format, the house rules in `tools/tidy.py`, the tests of the tools."""
    sources = [path for path in style_rules.project_files() if path.suffix in (".hpp", ".cpp")]
    lane.check("clang-format", *lane.run(["clang-format-19", "--dry-run", "-Werror", *sources]))
    for rule, problems in style_rules.check_all():
        lane.check(rule, len(problems), "\n".join(problems))
    for test in sorted(Path("tests/tools").glob("*_test.py")):
        lane.check(test.name, *lane.run([sys.executable, test]))


def tidy(lane):
    """Everything in `style`, each public header compiled alone with both compilers, clang-tidy."""
    style(lane)
    sources = sorted(Path("src").rglob("*.cpp"))
    headers = headers_alone.unproven(Path("include"), sources)
    print(f"{lane.name}: {len(headers)} public headers alone; sources begin with the others")
    place = Path("build/tidy/alone")
    for result in headers_alone.compile_all(lane.run, place, headers, PROCESSORS):
        lane.check(*result)
    lane.must("cmake", "--preset", "tidy")
    print(f"{lane.name}: clang-tidy over {len(sources)} files")
    for paths, status, output in look_at_all(lane.run, "build/tidy", sources, PROCESSORS):
        lane.check(f"clang-tidy {' '.join(map(str, paths))}", status, output)


def benchmark(lane):
    """The benchmark with the lane's name. Each JSON line is a case; "ok" is its verdict."""
    with ahead.pause():  # It builds, and looks at the clock.
        status, output = lane.run(["./bench", lane.name, "--check", "--json"])
    if status == CANNOT:
        raise Skip(last_line(output))
    for line in output.splitlines():
        if line.startswith("{"):
            case = json.loads(line)
            lane.check(case["case"], not case.get("ok", True), line)
    if status != 0 and lane.counts[FAILED] == 0:
        raise Broken(f"{tail(output)}\n./bench {lane.name}: exit status {status}")


def overhead(lane):
    """Instructions per operation, compared with bare C; fails above the limit."""
    benchmark(lane)


def many_channels(lane):
    """A `Reactor` with 1024 channels, compared with blocking calls: instructions (also with shared
    receives) and time; wake-ups while idle; memory of each of 10,000 channels, with and without
    shared receives; fails above the limit."""
    benchmark(lane)


# name: (function, package groups of tools/install.sh, time-out in seconds)
LANES = {
    "style": (style, ["clang"], 600),
    "unit": (unit, [], 1800),
    "compile-fail": (compile_fail, ["clang"], 1800),
    "tidy": (tidy, ["clang"], 1800),
    "soft": (soft, [], 1800),
    "soak": (soak, [], 1800),
    "preload": (preload, ["preload", "vm"], 1800),
    "cookbook": (cookbook, [], 1200),
    "asan": (asan, ["clang"], 2400),
    "tsan": (tsan, ["clang"], 1800),
    "overhead": (overhead, ["clang", "bench"], 1200),
    "async": (many_channels, ["bench"], 1200),
    "rxe": (rxe, ["vm"], 1800),
    "network": (network, ["clang", "mpi", "vm"], 1800),
    "examples": (examples, ["vm"], 1800),
    "cli": (cli, ["cli"], 1200),
    "docs": (docs, ["docs"], 1200),
    "install": (installing, ["clang", "install"], 1800),
}
LONG = [name for name in LANES if name != "style"]  # tidy does what style does
# What waits comes first: meanwhile the rest is built. Without soak: soft does it for a short time.
FIRST = ["soft", "preload", "cookbook", "rxe", "network", "examples", "cli", "docs", "install"]
ALL = FIRST + [name for name in LONG if name not in (*FIRST, "soak")]
QUICK = ["style", "unit"]


def description(name):
    return " ".join(LANES[name][0].__doc__.split())


def install(names):
    """Installs what all lanes need, at once. A lane reports what it needs and does not find."""
    groups = sorted({group for name in names for group in LANES[name][1]})
    try:
        Lane("packages", 1800).run(["tools/install.sh", *groups])
    except Broken as reason:
        print(f"install: {reason}")


def run_lane(name):
    function, groups, limit_s = LANES[name]
    lane = Lane(name, limit_s * int(os.environ.get(STRESS, 1)))
    print(f"== {name}: {description(name)}")
    try:
        status, output = lane.run(["tools/install.sh", *groups])
        if status != 0:
            raise Skip(last_line(output))
        function(lane)
        if lane.counts[PASSED] + lane.counts[FAILED] == 0:
            raise Skip("no test ran")
    except Skip as reason:
        lane.skip_reason = str(reason)
        print(f"{name} could not run: {reason}")
    except (Broken, OSError, ValueError, KeyError) as problem:  # other lanes still run
        lane.counts[FAILED] += 1
        print(f"FAILED {name}\n{problem}\nThe whole log is {lane.log}.")
    print(f"{name} took {lane.took_s():.1f} s")
    print(summary(name, lane.counts))
    return lane


def summary(name, counts):
    return f"{name}: " + ", ".join(f"{counts[verdict]} {verdict}" for verdict in counts)


def main(arguments):
    os.chdir(ROOT)
    LOGS.mkdir(parents=True, exist_ok=True)
    sys.stdout.reconfigure(line_buffering=True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    # Builds that join the same sources find each other's objects, though their folders differ.
    os.environ.setdefault("CCACHE_BASEDIR", str(ROOT))
    if "long" in arguments:
        os.environ[STRESS] = "10"
    asked = [name for word in arguments if word != "long"
             for name in (QUICK if word == "quick" else [word])]
    if unknown := [name for name in asked if name not in LANES]:
        print(f"test: no lane '{unknown[0]}'; lanes: {' '.join(LANES)}; also: quick, long",
              file=sys.stderr)
        return 2
    names = list(dict.fromkeys(asked or (LONG if "long" in arguments else ALL)))
    install(names)
    steps = [step for name in names for step in BUILDS.get(name, [])]
    ahead.start(((preset, *targets), build_command(preset, targets)) for preset, targets in steps)
    try:
        lanes = [run_lane(name) for name in names]
    finally:
        ahead.stop()
    skipped = [lane for lane in lanes if lane.skip_reason]
    for lane in skipped:
        print(f"skipped lane {lane.name}: {lane.skip_reason}")
    total = {verdict: sum(lane.counts[verdict] for lane in lanes) for verdict in lanes[0].counts}
    print(summary("total", total))
    if total[FAILED]:
        return 1
    if skipped and asked:
        return CANNOT
    return 1 if skipped and os.environ.get("VERBATIM_REQUIRE_LANES") == "1" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
