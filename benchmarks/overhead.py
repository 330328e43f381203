#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the library costs compared with bare verbs, on a provider that does nothing.

    ./bench overhead [--json] [--check]

Each case sends 8 bytes and waits for the completion, one at a time; `raw` does so in C, without
the library. callgrind counts the instructions of exactly OPERATIONS of them, which are the same in
every run. Nanoseconds are not: all cases take turns in one process, and the figure is the median of
ROUNDS; ns_ratio is the median of the ratios to `raw` within each round.

--json   JSON lines only on stdout, one per case and compiler; the rest goes to stderr.
--check  compares the figures with GATES; exit status 1 if one is missed.
"""
import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CANNOT = 77  # exit status: cannot run here

COMPILERS = {"g++": "release", "clang++": "release-clang"}  # preset
OPERATIONS = 10_080  # a multiple of 16 and 7, the sizes of the groups
ROUNDS, SLICE_OPERATIONS = 15, 4_000
PASSES = 3  # how many measurements must miss a gate before the check fails

# Above this, the base of all comparisons is itself too expensive, and they would flatter us.
MAX_RAW_INSTRUCTIONS = 130


class Gate(NamedTuple):
    more_instructions: float | None = None  # than its base
    instructions: float | None = None
    ns_ratio: float | None = None
    allocations: float = 0
    base: str = "raw"


GATES = {
    "queue_pair": Gate(more_instructions=12, ns_ratio=1.15),
    "channel.blocking": Gate(more_instructions=45),
    "channel.buffer": Gate(more_instructions=45),
    "channel.owned": Gate(more_instructions=55),
    "channel.unsafe": Gate(more_instructions=45),
    "channel.detached": Gate(more_instructions=50),
    "channel.scope": Gate(more_instructions=50),
    "channel.scope_each": Gate(more_instructions=105),
    "channel.batch": Gate(more_instructions=30, base="raw.batch"),
    "async.send": Gate(more_instructions=225),
    "async.send16": Gate(more_instructions=165),
    "async.task": Gate(more_instructions=385),
    "async.tags": Gate(more_instructions=220),
    # Asio keeps its memory from one operation to the next, but not from one run() to the next.
    "async.asio": Gate(instructions=800, allocations=10 / OPERATIONS),
    "multi.multicast": Gate(more_instructions=60),  # to each of 7 peers
    "pool.take": Gate(instructions=50),  # and dropped again
    # The software device does all of the work here, so raw is not a useful base.
    "soft.inprocess": Gate(instructions=250),
}


class Broken(Exception):
    """Something that has to work did not; the message says what."""


def run(*command):
    """Runs a command to its end and returns what it wrote to stdout and to stderr."""
    result = subprocess.run([str(part) for part in command], cwd=ROOT, text=True,
                            capture_output=True, check=False)
    if result.returncode != 0:
        print(result.stdout + result.stderr, file=sys.stderr)
        raise Broken(f"{' '.join(map(str, command))}: exit status {result.returncode}")
    return result.stdout, result.stderr


def build(preset, driver="overhead_driver", *more):
    """The path of the driver; `more` are targets that it needs."""
    print(f"building preset {preset}", file=sys.stderr)
    run("cmake", "--preset", preset, "-DVERBATIM_BUILD_BENCH=ON")
    run("cmake", "--build", "--preset", preset, "--target", driver, *more)
    return ROOT / "build" / preset / "benchmarks" / driver


def report(name, results, describe, options):
    """Prints a line for each result, whose "ok" is the verdict. Returns the exit status."""
    out = sys.stderr if options.json else sys.stdout
    failed = sum(not each["ok"] for each in results)
    for each in results:
        verdict = ("ok " if each["ok"] else "FAIL ") if options.check else ""
        print(f"{verdict}{each['case']}: {describe(each)}", file=out)
        if options.json:
            print(json.dumps(each, separators=(",", ":")))
    if not options.check:
        return 0
    sys.stdout.flush()
    print(f"{name}: {len(results) - failed} passed, {failed} failed, 0 skipped", file=out)
    return 1 if failed else 0


def instructions(function, *command):
    """The instructions of one function with everything it calls, and the command's output."""
    out, err = run("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                   f"--toggle-collect={function}", *command)
    collected = re.search(r"Collected : (\d+)", err)
    if collected is None or int(collected[1]) == 0:
        raise Broken(f"callgrind counted nothing in {function}:\n{err}")
    return int(collected[1]), json.loads(out)


def count(driver, case):
    """Instructions and allocations per operation."""
    total, counted = instructions("overhead_measured", driver, "count", case, OPERATIONS)
    return {"instructions": round(total / OPERATIONS, 1),
            "allocations": counted["allocations"] / OPERATIONS}


def clock(driver):
    """{case: {"ns", "ns_ratio"}} of one pass."""
    out, _ = run(driver, "time", ROUNDS, SLICE_OPERATIONS)
    passed = [json.loads(line) for line in out.splitlines()]
    return {each["case"]: {key: each[key] for key in ("ns", "ns_ratio")} for each in passed}


def steady_clock(driver):
    """Times again while a gate is missed, because another program may have disturbed it."""
    times = clock(driver)
    for _ in range(PASSES - 1):
        slow = [case for case, gate in GATES.items()
                if gate.ns_ratio is not None and times[case]["ns_ratio"] > gate.ns_ratio]
        if not slow:
            break
        again = clock(driver)
        for case in slow:
            times[case] = min(times[case], again[case], key=lambda each: each["ns_ratio"])
    return times


def measure(compiler, preset):
    driver = build(preset)
    cases = run(driver, "list")[0].split()
    times = steady_clock(driver)
    return [{"bench": "overhead", "case": case, "compiler": compiler, **count(driver, case),
             **times[case]} for case in cases]


def verdicts(result, results):
    """(whether it holds, what was compared) for each gate of one case and compiler."""
    gate = GATES.get(result["case"])
    if gate is None:
        return []
    base = next(each for each in results
                if (each["case"], each["compiler"]) == (gate.base, result["compiler"]))
    gates = [(result["allocations"] <= gate.allocations,
              f"allocations: {result['allocations']:g}, at most {gate.allocations:g}")]
    if gate.more_instructions is not None:
        more = result["instructions"] - base["instructions"]
        gates.append((more <= gate.more_instructions,
                      f"instructions: {gate.base} {base['instructions']:g} + {more:g}, at most + "
                      f"{gate.more_instructions:g}"))
    if gate.instructions is not None:
        gates.append((result["instructions"] <= gate.instructions,
                      f"instructions: {result['instructions']:g}, at most {gate.instructions:g}"))
    if gate.ns_ratio is not None:
        gates.append((result["ns_ratio"] <= gate.ns_ratio,
                      f"time: {result['ns_ratio']:.2f} times raw, at most {gate.ns_ratio:.2f}"))
    return gates


def check(results, out):
    """Prints a line per gate, marks each result, and returns how many gates were missed."""
    counts = {True: 0, False: 0}
    for result in results:
        gates = verdicts(result, results)
        result["ok"] = all(holds for holds, _ in gates)
        for holds, what in gates:
            counts[holds] += 1
            print(f"{'ok' if holds else 'FAIL'} {result['case']} {result['compiler']} {what}",
                  file=out)
    return counts


def table(results):
    form = "{:<16} {:<9} {:>12} {:>12} {:>8} {:>9}"
    print(form.format("case", "compiler", "instructions", "allocations", "ns", "ns_ratio"))
    for each in results:
        print(form.format(each["case"], each["compiler"], f"{each['instructions']:g}",
                          f"{each['allocations']:g}", f"{each['ns']:.1f}",
                          f"{each['ns_ratio']:.2f}"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="JSON lines only on stdout")
    parser.add_argument("--check", action="store_true", help="hold the figures against the gates")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("valgrind is not installed", file=sys.stderr)
        return CANNOT

    results = [each for pair in COMPILERS.items() for each in measure(*pair)]
    for each in results:
        if each["case"] == "raw" and each["instructions"] > MAX_RAW_INSTRUCTIONS:
            raise Broken(f"raw takes {each['instructions']} instructions with {each['compiler']}, "
                         f"at most {MAX_RAW_INSTRUCTIONS}: the null provider has become too dear")

    if not options.json:
        table(results)
    out = sys.stderr if options.json else sys.stdout
    counts = check(results, out) if options.check else {True: 0, False: 0}
    if options.json:
        for each in results:
            print(json.dumps(each, separators=(",", ":")))
    if options.check:
        sys.stdout.flush()
        print(f"overhead: {counts[True]} passed, {counts[False]} failed, 0 skipped", file=out)
    return 1 if counts[False] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Broken as reason:
        print(f"overhead: {reason}", file=sys.stderr)
        sys.exit(1)
