#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""How long a job takes to start, meet and end, compared with a program that only uses PMIx.

    ./bench bootstrap [--json] [--check] [--rounds N] [--only PATTERN] [--ours PROGRAM]

`ours` is a program started by `verbatim run -n N`: by default one whose ranks join, are connected
to the barrier's partners, meet and leave. `reference` is bootstrap_reference.c under mpirun: PMIx
init, put, fence, get of all, finalize. Both are timed from the start of the launcher to its exit,
one right after the other in each round, and the order alternates. `ratio` is the median of the
ratios within the rounds, so other load on the machine slows both down alike.

`bytes_per_rank` is the traffic of rank 0's session in both directions, with no connections and with
all. `connection` is what one connection takes: heap beyond that of a bare queue pair, and
descriptors.

--json   JSON lines only on stdout, one per case; the rest goes to stderr.
--check  compares the ratios and the bytes with their limits; exit status 1 if one is missed.
--only   the cases whose name contains PATTERN.
--ours   another program, and arguments if it is quoted.
"""
import argparse
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import time

from overhead import CANNOT, ROOT, Broken, build, report

BUILD = ROOT / "build" / "release"
PROGRAM = BUILD / "benchmarks" / "bootstrap_program"
RANKS = (64, 256)
ROUNDS = 7
PATIENCE_S = 60  # for one run
TRIES = 4  # OpenMPI 4.1's mpirun sometimes misses the end of a rank, and fails or waits for ever
MOST = 0.75  # times the reference


def most_bytes(ranks, connect):
    """The limit per rank, for what it has to know about all others."""
    return 1024 + {"none": 128, "all": 320}[connect] * ranks


def timed(command):
    """(seconds from start to exit, what it printed)."""
    begin = time.monotonic()
    try:
        done = subprocess.run(list(map(str, command)), text=True, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired as late:
        raise Broken(f"{' '.join(map(str, command))}: no end after {PATIENCE_S} s") from late
    took_s = time.monotonic() - begin
    if done.returncode != 0:
        raise Broken(f"{done.stdout[-2000:]}{done.stderr[-2000:]}\n"
                     f"{' '.join(map(str, command))}: exit status {done.returncode}")
    return took_s, done.stdout


def timed_until_it_works(command, tries):
    """The first run that succeeds. Prints how many did not."""
    for left in range(tries - 1, -1, -1):
        try:
            return timed(command)
        except Broken as reason:
            if left == 0:
                raise
            print(f"bootstrap: again: {str(reason).splitlines()[-1]}", file=sys.stderr)
    raise AssertionError


def launchers(ranks, ours):
    return {"ours": [BUILD / "bin" / "verbatim", "run", "-n", ranks, "--", *ours],
            "reference": ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", ranks,
                          BUILD / "benchmarks" / "bootstrap_reference"]}


def measure(ranks, ours, rounds):
    """The figures for one number of ranks; the first run of each program does not count."""
    commands = launchers(ranks, ours)
    took = {name: [] for name in commands}
    for number in range(-1, rounds):
        for name in sorted(commands, reverse=number % 2 == 0):
            tries = 1 if name == "ours" else TRIES
            seconds, _ = timed_until_it_works(commands[name], tries)
            if number >= 0:
                took[name].append(seconds)
    ratio = statistics.median(a / b for a, b in zip(took["ours"], took["reference"]))
    median = {name: round(1000 * statistics.median(all_s), 1) for name, all_s in took.items()}
    result = {"bench": "bootstrap", "case": f"start_to_exit.{ranks}", "value": median["ours"],
              "unit": "ms", "peer": "pmix", "peer_value": median["reference"],
              "ratio": round(ratio, 3), "limit": MOST, "ok": ratio <= MOST, "rounds": rounds}
    return result


def bytes_per_rank(connect, ranks=RANKS[0]):
    """The traffic of rank 0's session, in both directions."""
    command = launchers(ranks, [PROGRAM, connect])["ours"]
    count = int(re.search(r"\bbytes (\d+)", timed(command)[1])[1])
    limit = most_bytes(ranks, connect)
    return {"bench": "bootstrap", "case": f"bytes_per_rank.{connect}.{ranks}", "value": count,
            "unit": "B", "limit": limit, "ok": count <= limit}


def connections():
    """What a connection takes: memory beyond the device's, and descriptors."""
    printed = timed([PROGRAM, "connections"])[1]
    found = {name: int(count) for name, count in re.findall(r"(\w+) (\d+)", printed)}
    limits = {"heap": (24 * 1024, "B"), "descriptors": (0, "")}
    return [{"bench": "bootstrap", "case": f"connection.{name}", "value": found[name],
             "unit": unit, "limit": limit, "ok": found[name] <= limit}
            for name, (limit, unit) in limits.items()]


def describe(each):
    if "ratio" in each:
        return (f"{each['value']} ms, reference {each['peer_value']} ms, "
                f"ratio {each['ratio']} (limit {each['limit']})")
    return f"{each['value']} {each['unit']} (limit {each['limit']})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="JSON lines only on stdout")
    parser.add_argument("--check", action="store_true", help="hold the figures against the limits")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", default="", help="the cases whose name contains this")
    parser.add_argument("--ours", help="a program that verbatim run starts instead of ours")
    options = parser.parse_args()
    subprocess.run([str(ROOT / "tools" / "install.sh"), "mpi"], stdout=sys.stderr, check=False)
    if shutil.which("mpirun") is None:
        print("mpirun is not installed (openmpi-bin)", file=sys.stderr)
        return CANNOT
    build("release", PROGRAM.name, "bootstrap_reference", "verbatim_cli")
    ours = shlex.split(options.ours or f"{PROGRAM} partners")
    results = [measure(ranks, ours, options.rounds) for ranks in RANKS
               if options.only in f"start_to_exit.{ranks}"]
    results += [bytes_per_rank(connect) for connect in ("none", "all")
                if options.only in f"bytes_per_rank.{connect}"]
    if options.only in "connection":
        results += connections()
    return report("bootstrap", results, describe, options)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Broken as reason:
        print(f"bootstrap: {reason}", file=sys.stderr)
        sys.exit(1)
