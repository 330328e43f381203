#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What perftest measures on the software device, next to our own loop on the same device.

    ./bench preload [--json] [--check] [--rounds N] [--only PATTERN]

Debian's perftest, as it is, with libverbatim-preload.so in LD_PRELOAD, in two processes on two
cores; and the loop of ./bench soft in two others, one right after the other in each round. Both use
memory that is only registered (plain): perftest has no other. `value` is perftest's, the peer
`soft` is our loop, and `ratio` the median of the ratios within the rounds. It is 1 if a program
that knows nothing of us gets what our own library gets. The loop does what perftest does, in its
order: that gives the receive back before it answers, and reads the clock for every message.

Of perftest's latencies its median counts ("typical"), of its bandwidths the mean. A round is the
best of TRIES short runs of each, because a machine that does other things as well disturbs some.

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
COUNTS = {"lat": 50_000, "bw": 6_656}  # of bandwidths as many as our loop sends
TRIES = 5
DEPTH = 256  # of the receive queue; our loop has as many


def perftest(bench, case):
    """The figure of ib_VERB_FIGURE for this case."""
    verb, figure, size, _ = case.split(".")
    port = soft.free_port()
    # -F: it would complain of a clock that is not constant.
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
    """(perftest's figure, ours): of each the best of runs that take turns."""
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
