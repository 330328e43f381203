#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs lanes: groups of tests that need the same build and the same kind of machine.

Use it through ./test, which says how. One function per lane; each adds its tests to the lane.
"""
import json
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gtest_report
import tidy as style_rules
from gtest_report import FAILED, PASSED, SKIPPED, Case, tail
from lane import LOGS, Broken, Lane, Skip, stop
from preload_lane import preload

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
    limit_s = max(1, lane.left_s() - 10)  # so that it can say what happened
    status, output = lane.run(
        ["tools/vm/run", f"--timeout={limit_s:.0f}", *env, "--out", out, "--", *command])
    if status == CANNOT:
        raise Skip(last_line(output))
    return status, output


# ---- Lanes ---------------------------------------------------------------------------------------

def run_tests(lane, preset, programs_of, env=None, shards=1):
    """Runs the GoogleTest programs registered for a lane, each in so many parts at once."""
    for program in programs(preset, programs_of):
        def run_shard(index):
            part = f".{index}" if shards > 1 else ""
            report = LOGS / f"{lane.name}.{program.name}{part}.json"
            report.unlink(missing_ok=True)
            share = {"GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(index)}
            status, output = lane.run([program, f"--gtest_output=json:{report}"],
                                      (env or {}) | (share if shards > 1 else {}))
            return gtest_report.cases(report, output, status, program.name)

        with ThreadPoolExecutor(shards) as pool:
            for cases in pool.map(run_shard, range(shards)):
                for case in cases:
                    lane.add(case)


def unit(lane, preset="dev", env=None):
    """The unit tests, built with g++."""
    lane.build(preset, "unit_tests", "channel_tests", "soft_tests", "model_off_tests",
               "misuse_tests", "misuse_channel_tests")
    run_tests(lane, preset, "unit", env)


def compile_fail(lane):
    """Misuse that must not compile, through both compilers (tests/compile_fail)."""
    lane.build("dev", "compile_fail_tests")
    run_tests(lane, "dev", "compile-fail", shards=os.cpu_count() or 1)  # Most of it is compilers.


def on_soft0(lane, preset, variants, env=None):
    """The conformance suite on the software device, once per variant of its environment."""
    for program in programs(preset, "rxe"):
        for variant in variants:
            report = LOGS / f"{lane.name}.{program.name}.json"
            report.unlink(missing_ok=True)
            print(f"{lane.name}: conformance on soft0", *map("=".join, variant.items()))
            command = [program, "--device", "soft0", f"--gtest_output=json:{report}"]
            status, output = lane.run(command, {**(env or {}), **variant})
            for case in gtest_report.cases(report, output, status, program.name):
                lane.add(case)


DEFERRED = {"VERBATIM_SOFT_MODE": "deferred"}


def soft(lane):
    """The conformance suite on soft0 in each of its modes, and what killed processes leave.

    And misuse of a channel that a release build notices.
    """
    lane.build("release", "conformance", "survival_tests", "misuse_channel_tests")
    on_soft0(lane, "release", [{}, DEFERRED, {"VERBATIM_SOFT_MEMORY": "process"},
                               {"VERBATIM_SOFT_MEMORY": "relay"}, {"VERBATIM_SOFT_LINK": "eth"}])
    run_tests(lane, "release", "soft")


def asan(lane):
    """Unit tests and conformance on soft0 under AddressSanitizer and UBSan, built with clang.

    Misuse of memory in flight also with g++, under MemorySanitizer and under Valgrind.
    """
    env = {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1",
           "ASAN_SYMBOLIZER_PATH": "/usr/bin/llvm-symbolizer-19"}
    unit(lane, "asan", env)
    lane.build("asan", "misuse_msan_tests", "conformance")
    run_tests(lane, "asan", "asan", env)
    lane.build("dev", "misuse_asan_tests", "misuse_valgrind_tests",
               "misuse_channel_valgrind_tests")
    run_tests(lane, "dev", "asan")
    on_soft0(lane, "asan", [{}, DEFERRED], env)


def tsan(lane):
    """Conformance on soft0 under ThreadSanitizer, built with clang; misuse also with g++."""
    env = {"TSAN_OPTIONS": "second_deadlock_stack=1 "
           "external_symbolizer_path=/usr/bin/llvm-symbolizer-19"}
    lane.build("tsan", "misuse_tests", "misuse_channel_tests", "conformance")
    run_tests(lane, "tsan", "tsan", env)
    lane.build("dev", "misuse_tsan_tests")
    run_tests(lane, "dev", "tsan")
    on_soft0(lane, "tsan", [{}, DEFERRED], env)


def rxe(lane):
    """The conformance suite on Soft-RoCE, the kernel's RDMA device, in a virtual machine."""
    lane.build("release", "conformance")
    for program in programs("release", "rxe"):
        out = Path("build/guest", program.name)
        status, output = in_guest(lane, out, program, "--device", "rxe0",
                                  f"--gtest_output=json:{out}/report.json")
        for case in gtest_report.cases(out / "report.json", output, status, program.name):
            lane.add(case)


def examples(lane):
    """Every example, on soft0 here and on Soft-RoCE in a virtual machine, by exit status."""
    lane.build("release", "examples/all")
    names, out = programs("release", "examples"), Path("build/guest/examples")
    for name in names:
        lane.check(f"{name.name} on soft0", *lane.run([name], {"VERBATIM_DEVICE": "soft0"}))
    status, output = in_guest(lane, out, "tools/run_examples.sh", out, *names)
    results = out / "results"
    for line in results.read_text().splitlines() if results.exists() else []:
        name, code = line.split()
        text = (out / f"{name}.log").read_text(errors="replace")
        if int(code) == CANNOT:
            lane.add(Case(name, SKIPPED, last_line(text)))
        else:
            lane.check(name, int(code), f"{text}\nexit status {code}")
    if missing := 2 * len(names) - sum(lane.counts.values()):
        raise Broken(f"{tail(output)}\n{missing} examples did not run, exit status {status}")


def style(lane):
    """The format of the C++ files, and the rules of tools/tidy.py."""
    sources = [path for path in style_rules.project_files() if path.suffix in (".hpp", ".cpp")]
    lane.check("clang-format", *lane.run(["clang-format-19", "--dry-run", "-Werror", *sources]))
    for rule, problems in style_rules.check_all():
        lane.check(rule, len(problems), "\n".join(problems))


def tidy(lane):
    """Style, public headers that compile alone with both compilers, and clang-tidy."""
    style(lane)
    for preset in ("dev", "tidy"):
        lane.must("cmake", "--preset", preset)
        lane.check(f"public headers compile alone ({preset})", *lane.run(
            ["ninja", "-C", f"build/{preset}", "--quiet", "all_verify_interface_header_sets"]))
    sources = sorted(Path("src").rglob("*.cpp"))
    print(f"{lane.name}: clang-tidy over {len(sources)} files")
    command = ["clang-tidy-19", "--quiet", "-p", "build/tidy"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda path: lane.run([*command, path]), sources)
        for path, result in zip(sources, results):
            lane.check(f"clang-tidy {path}", *result)


def overhead(lane):
    """What the library costs over bare verbs; each JSON line is a case, "ok" is its verdict."""
    status, output = lane.run(["./bench", "overhead", "--check", "--json"])
    if status == CANNOT:
        raise Skip(last_line(output))
    for line in output.splitlines():
        if line.startswith("{"):
            case = json.loads(line)
            lane.check(case["case"], not case.get("ok", True), line)
    if status != 0 and lane.counts[FAILED] == 0:
        raise Broken(f"{tail(output)}\n./bench overhead: exit status {status}")


# name: (function, package groups of tools/install.sh, time-out in seconds)
LANES = {
    "style": (style, ["clang"], 120),
    "unit": (unit, [], 900),
    "compile-fail": (compile_fail, ["clang"], 1800),
    "tidy": (tidy, ["clang"], 1800),
    "soft": (soft, [], 1800),
    "preload": (preload, ["preload", "vm"], 1200),
    "asan": (asan, ["clang"], 2400),
    "tsan": (tsan, ["clang"], 1800),
    "overhead": (overhead, ["clang", "bench"], 1200),
    "rxe": (rxe, ["vm"], 1800),
    "examples": (examples, ["vm"], 900),
}
ALL = [name for name in LANES if name != "style"]  # tidy does what style does
QUICK = ["style", "unit"]


def run_lane(name):
    function, groups, limit_s = LANES[name]
    lane = Lane(name, limit_s * int(os.environ.get(STRESS, 1)))
    print(f"== {name}: {function.__doc__.splitlines()[0]}")
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
    print(f"{name} took {time.monotonic() - lane.start:.1f} s")
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
    if "long" in arguments:
        os.environ[STRESS] = "10"
    asked = [name for word in arguments if word != "long"
             for name in (QUICK if word == "quick" else [word])]
    if unknown := [name for name in asked if name not in LANES]:
        print(f"test: no lane '{unknown[0]}'; lanes: {' '.join(LANES)}; also: quick, long",
              file=sys.stderr)
        return 2
    lanes = [run_lane(name) for name in dict.fromkeys(asked or ALL)]
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
