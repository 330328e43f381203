#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What perftest measures on the software device, compared with our own loop on that device.

    ./bench preload [--json] [--check] [--rounds N] [--only PATTERN]

Each round runs Debian's unmodified perftest with libverbatim-preload.so in LD_PRELOAD, in two
processes on two cores, and right after it the loop of ./bench soft in two others. Both use memory
that is only registered (plain), because perftest has no other. `value` is perftest's figure, the
peer `soft` is our loop, and `ratio` is the median of the ratios within the rounds. It is 1 if a
program that does not know our library gets the same as the library itself. The loop does what
perftest does, in the same order: it posts the receive again before it answers, and reads the clock
for every message.

The figures of perftest are the median ("typical") for latencies, and the mean for bandwidths. A
round takes the best of TRIES short runs of each, because other load on the machine disturbs some.

--json   JSON lines only on stdout, one per case; the rest goes to stderr.
--check  every ratio has to be from 0.9 to 1.1; exit status 1 if one is not.
--only   the cases whose name contains PATTERN.
"""
import re
import statistics
import subprocess
import sys

import soft
from soft import ROOT, UNITS, Broken, Gate, Unavailable

PRELOAD = ROOT / "build" / "release" / "lib" / "libverbatim-preload.so"
CASES = [f"{verb}.{figure}.{size}.plain" for figure, size in (("lat", 8), ("bw", 65536))
         for verb in ("write", "read", "send")]
GATES = [gate for case in CASES
         for gate in (Gate(case, "soft", 0.9, False), Gate(case, "soft", 1.1, True))]
COUNTS = {"lat": 50_000, "bw": 6_656}  # for bandwidths, as many as our loop sends
TRIES = 5
DEPTH = 256  # of the receive queue, as in our loop


def perftest(bench, case):
    """The figure of ib_VERB_FIGURE for this case."""
    verb, figure, size, _ = case.split(".")
    port = soft.free_port()
    # -F: otherwise it complains about a clock that is not constant.
    command = [f"ib_{verb}_{figure}", "-F", "-s", size, "-n", COUNTS[figure], "-p", port]
    if verb == "send":
        command += ["-r", DEPTH]
    out = bench.with_server(command, [*command, "localhost"], port, {"LD_PRELOAD": str(PRELOAD)})
    row = re.search(rf"^\s*{size}\s+\d+\s+([\d. \t]+?)\s*$", out, re.M)
    if row is None:
        raise Broken(f"{command[0]} printed no figures:\n{out}")
    columns = [float(field) for field in row[1].split()]
    # Latency: min, max, typical, average, ... Bandwidth: peak, average, messages.
    return columns[2] if figure == "lat" else columns[1]


def one_round(bench, case):
    """(perftest's figure, ours): the best of each, from runs that take turns."""
    runs = [(perftest(bench, case), bench.drive(case, "--manner", "perftest"))
            for _ in range(TRIES)]
    best = min if ".lat." in case else max
    return tuple(best(figures) for figures in zip(*runs))


def measure(bench, cases, rounds):
    theirs, ours = {}, {}
    for number in range(rounds):
        print(f"preload: round {number + 1} of {rounds}", file=sys.stderr)
        for case in cases:
            figures = one_round(bench, case)
            theirs.setdefault(case, []).append(figures[0])
            ours.setdefault(case, []).append(figures[1])
    return [{"bench": "preload", "case": case, "value": round(statistics.median(theirs[case]), 4),
             "unit": UNITS[case.split(".")[1]], "peer": "soft",
             "peer_value": round(statistics.median(ours[case]), 4),
             "ratio": round(statistics.median(a / b for a, b in zip(theirs[case], ours[case])), 3),
             "rounds": rounds} for case in cases]


def main():
    options = soft.parse(__doc__)
    cores = soft.two_cores()
    if cores is None:
        return soft.CANNOT
    if subprocess.run([str(ROOT / "tools" / "install.sh"), "preload"], stdout=sys.stderr,
                      check=False).returncode != 0:
        print("preload: there is no perftest to measure", file=sys.stderr)
        return soft.CANNOT
    bench = soft.Bench(soft.build("verbatim_preload"), cores)
    cases = [case for case in CASES if options.only in case]
    return soft.report("preload", measure(bench, cases, options.rounds), GATES, options)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Broken, Unavailable) as reason:
        print(f"preload: {reason}", file=sys.stderr)
        sys.exit(1)
