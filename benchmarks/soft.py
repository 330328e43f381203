#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the software device achieves between two processes, compared with other libraries.

    ./bench soft [--json] [--check] [--rounds N] [--only PATTERN]

Two processes, one on each of two cores, write, read and send; on memory that both can map (a
`Buffer`) and on memory that is only registered (plain). In each round every case runs right after
its peers: UCX and libfabric over shared memory, and the limits of the machine (the hand-off of a
cache line, memcpy, a bare process_vm_writev). `ratio` is the median of the ratios within the
rounds, so other load on the machine slows both down alike. A host may move a virtual machine's
processors to others, between which a cache line takes five times as long. So latencies are measured
between two looks at the hand-off of a line, and once more if those differ (STILL). NEAR is measured
once more for each level of cache that two processors share: a case that ends in `.l1` ran on the
two threads of a core, one that ends in `.l3` on two cores that have no nearer cache in common.

Latencies are half a round trip (for a read, the whole operation). Both sides watch memory with
what suits them: ours finish one look before the next (finish_look()), ucx_perftest lets UCX
progress in between; with an empty loop (-o) it is slower, too. The figures approximate those of a
machine that does nothing else: ours are medians of slices, and UCX reports the median of its
latencies. Rates and bandwidths vary by a fifth with the addresses that a process happens to get. So
for both UCX and us, the best of TRIES short runs counts.

--json   JSON lines only on stdout, one per case and peer; the rest goes to stderr.
--check  compares the ratios with GATES; exit status 1 if one is missed.
--only   the cases whose name contains PATTERN.

A peer that is not available gives a ratio of null; the reason is printed to stderr.
"""
import argparse
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from listeners import free_port, listens  # noqa: E402

CANNOT = 77  # exit status: cannot run here
ROUNDS = 15
TRIES = 3
STILL = 1.5  # two looks at the hand-off that differ by more: the processors were moved in between
MOST_LOOKS = 5
PATIENCE_S = 60  # for one measurement

UNITS = {"lat": "us", "bw": "MiB/s", "rate": "M/s"}
UCX_ENVIRONMENT = {"UCX_TLS": "posix,cma,self", "UCX_WARN_UNUSED_ENV_VARS": "n"}
# peer -> the name of the test in ucx_perftest, and the column of its figures.
UCX_TESTS = {
    "ucx.put_lat": ("ucp_put_lat", "us"), "ucx.tag_lat": ("tag_lat", "us"),
    "ucx.put_bw": ("ucp_put_bw", "MiB/s"), "ucx.tag_bw": ("tag_bw", "MiB/s"),
    "ucx.put_rate": ("ucp_put_bw", "M/s"), "ucx.tag_rate": ("tag_bw", "M/s"),
}


class Broken(Exception):
    """Something that has to work did not; the message says what."""


class Unavailable(Exception):
    """A peer that this machine does not have."""


NEAR = "write.lat.8.buffer"  # also measured between processors that share a cache
LEVELS = (1, 2, 3)


class Gate(NamedTuple):
    case: str
    peer: str
    limit: float
    at_most: bool  # otherwise: at least
    # (peer, limit): the gate to use if this peer alone already exceeds the limit.
    floor: tuple = ()


GATES = [
    Gate("write.lat.8.buffer", "ucx.put_lat", 1.1, True),
    Gate("send.lat.8.buffer", "ucx.tag_lat", 1.05, True),
    Gate("write.bw.65536.buffer", "memcpy", 0.9, False),
    Gate("write.rate.8.buffer", "ucx.put_rate", 0.7, False),
    Gate("send.rate.8.buffer", "ucx.tag_rate", 0.9, False),
    # Memory that is only registered costs a system call. If a bare system call already takes longer
    # than the limit, nothing can meet it. The gate then limits what we add to the call.
    Gate("write.lat.8.plain", "cacheline", 7, True, ("process_vm", 1.25)),
    # With near processors, the cost of a message shows beside the time its cache line takes.
    *(Gate(f"{NEAR}.l{level}", "ucx.put_lat", 1.1, True) for level in LEVELS),
]


def peers_of(case):
    """What a case is compared with. A read involves no other process: its limit is the hand-off."""
    verb, figure, _, memory = case.split(".")[:4]
    if figure == "lat" and verb == "write" and memory == "plain":
        return ["ucx.put_lat", "cacheline", "process_vm"]
    if figure == "lat":
        return {"write": ["ucx.put_lat", "cacheline"], "read": ["cacheline"],
                "send": ["ucx.tag_lat", "fi.shm", "cacheline"]}[verb]
    if figure == "bw":
        return {"write": ["ucx.put_bw", "memcpy"], "read": ["memcpy"],
                "send": ["ucx.tag_bw", "memcpy"]}[verb]
    return {"write": ["ucx.put_rate"], "read": ["ucx.put_rate"], "send": ["ucx.tag_rate"]}[verb]


def all_cases(levels=()):
    """Groups of cases that share figure, size and level of the cache that the processors share.

    {(figure, bytes, level, verb): [verb.figure.bytes.memory]}; the level is 0 where it does not
    matter. A group of latencies is short, so that processors seldom move meanwhile: one verb.
    """
    groups = {("lat", 8, level, "write"): [f"{NEAR}.l{level}"] for level in levels}
    for figure, sizes in (("lat", (8, 4096)), ("bw", (65536, 1 << 20)), ("rate", (8,))):
        for size in sizes:
            for verb in ("write", "read", "send"):
                cases = [f"{verb}.{figure}.{size}.{memory}" for memory in ("buffer", "plain")]
                key = (figure, size, 0, verb if figure == "lat" else "")
                groups[key] = groups.get(key, []) + cases
    return groups


def run(*command):
    result = subprocess.run([str(part) for part in command], cwd=ROOT, text=True,
                            capture_output=True, check=False)
    if result.returncode != 0:
        print(result.stdout + result.stderr, file=sys.stderr)
        raise Broken(f"{' '.join(map(str, command))}: exit status {result.returncode}")


def build(*more):
    """Builds our own loop, and more targets. Returns the path of the loop."""
    print("building preset release", file=sys.stderr)
    run("cmake", "--preset", "release", "-DVERBATIM_BUILD_BENCH=ON")
    run("cmake", "--build", "--preset", "release", "--target", "soft_driver", *more)
    return ROOT / "build" / "release" / "benchmarks" / "soft_driver"


def install_peers():
    """Installs missing packages. What cannot be installed is noticed at its first use."""
    subprocess.run([str(ROOT / "tools" / "install.sh"), "soft-bench"], stdout=sys.stderr,
                   check=False)


def pinned(core, command, **options):
    return subprocess.Popen(["taskset", "-c", str(core), *map(str, command)], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def best(figure, measure):
    """The best of several runs, for figures that vary from run to run."""
    return max(measure() for _ in range(1 if figure == "lat" else TRIES))


class Bench:
    def __init__(self, driver, cores, missing=None):
        self.driver = driver
        self.cores = cores
        # Peers that are missing, and whose reason was already printed.
        self.missing = set() if missing is None else missing

    def finish(self, processes):
        """What the processes wrote, in their order. Kills all of them if one does not end."""
        try:
            written = [each.communicate(timeout=PATIENCE_S) for each in processes]
        except subprocess.TimeoutExpired as late:
            raise Broken(f"{' '.join(late.cmd)}: no end after {PATIENCE_S} s") from None
        finally:
            for each in processes:
                if each.poll() is None:
                    each.kill()
                    each.wait()
        for each, (out, err) in zip(processes, written):
            if each.returncode != 0:
                raise Broken(f"{' '.join(each.args)}: exit status {each.returncode}\n{out}{err}")
        return [out for out, _ in written]

    def drive(self, case, *more):
        """A case of our own, in two processes."""
        ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        processes = [
            pinned(core, [self.driver, "--role", role, "--case", case, "--socket", end.fileno(),
                          *more], pass_fds=[end.fileno()])
            for core, role, end in zip(self.cores, ("left", "right"), ends)]
        for end in ends:
            end.close()  # Each side must notice if the other dies early.
        return float(self.finish(processes)[0])

    def limit(self, case, size, roles):
        shared = os.memfd_create("soft-bench")
        try:
            os.ftruncate(shared, size)
            processes = [
                pinned(core, [self.driver, "--role", role, "--case", case, "--shared", shared],
                       pass_fds=[shared])
                for core, role in zip(self.cores, roles)]
        finally:
            os.close(shared)
        return float(self.finish(processes)[0])

    def with_server(self, server, client, port, environment=None):
        """Runs a pair of programs; the second connects to the first. Returns its output."""
        if shutil.which(server[0]) is None:
            raise Unavailable(f"{server[0]} is not installed")
        env = {**os.environ, **(environment or {})}
        serving = pinned(self.cores[1], server, env=env)
        try:
            await_listener(port, serving)
            asking = pinned(self.cores[0], client, env=env)
            return self.finish([asking, serving])[0]
        except Broken as reason:
            raise Unavailable(str(reason)) from None
        finally:
            if serving.poll() is None:
                serving.kill()
                serving.wait()

    def ucx(self, peer, size):
        test, unit = UCX_TESTS[peer]
        port = free_port()
        count = {"us": 200_000 if size <= 64 else 60_000, "M/s": 1 << 18,
                 "MiB/s": (1 << 28) // size}[unit]
        common = ["ucx_perftest", "-p", port, "-f"]
        out = self.with_server(common, [*common, "localhost", "-t", test, "-s", size, "-n", count,
                                        "-w", max(count // 20, 100)], port, UCX_ENVIRONMENT)
        # iterations, latency (percentile, average, overall), MB/s (2), messages/s (2)
        rows = re.findall(r"^\s*(\d+(?:\s+\d+(?:\.\d+)?){7})\s*$", out, re.M)
        if not rows:
            raise Unavailable(f"ucx_perftest printed no figures:\n{out}")
        row = [float(field) for field in rows[-1].split()]
        return {"us": row[1], "MiB/s": row[5], "M/s": row[7] / 1e6}[unit]

    def libfabric(self, size):
        port = free_port()
        common = ["fi_pingpong", "-p", "shm", "-e", "rdm", "-I", 20_000, "-S", size]
        out = self.with_server([*common, "-B", port], [*common, "-P", port, "127.0.0.1"], port)
        # bytes, #sent, #ack, total, time, MB/sec, usec/xfer, Mxfers/sec
        row = out.split("\n")[1].split()
        return float(row[6])

    def peer(self, name, figure, size):
        try:
            if name.startswith("ucx."):
                return best(figure, lambda: self.ucx(name, size))
            if name == "fi.shm":
                return self.libfabric(size)
        except Unavailable as reason:
            if name not in self.missing:
                print(f"soft: no {name}: {reason}", file=sys.stderr)
            self.missing.add(name)
            return None
        if name == "memcpy":
            return self.limit(f"memcpy.{size}", size, ["left"])
        return self.limit(name, 4096, ["left", "right"])


def await_listener(port, process):
    if not listens(port, process):
        raise Broken(f"{process.args[3]} does not listen")


def measure_once(bench, group, cases):
    """({case: value}, {peer: value}) of one round."""
    figure, size, level, _ = group
    theirs = {peer: bench.peer(peer, figure, size)
              for peer in dict.fromkeys(peer for case in cases for peer in peers_of(case))}
    ours = {case: best(figure, lambda case=case: bench.drive(case.removesuffix(f".l{level}")))
            for case in cases}
    return ours, theirs


def measure_still(bench, group, cases):
    """The same; for latencies again if the processors were moved meanwhile."""
    if group[0] != "lat":
        return measure_once(bench, group, cases)
    for _ in range(MOST_LOOKS):
        before = bench.peer("cacheline", "lat", 8)
        found = measure_once(bench, group, cases)
        looks = sorted([before, bench.peer("cacheline", "lat", 8)])
        if looks[1] <= STILL * looks[0]:
            return found
    print(f"soft: the processors were moved in each of {MOST_LOOKS} tries: {', '.join(cases)}",
          file=sys.stderr)
    return found


def measure(benches, groups, rounds):
    """[{case, peer, value, ratio}] of all rounds. The ratio of a round compares figures that were
    taken one after the other on the same processors. `benches` has a Bench for each level."""
    values, peer_values = {}, {}
    for number in range(rounds):
        print(f"soft: round {number + 1} of {rounds}", file=sys.stderr)
        for group, cases in groups.items():
            ours, theirs = measure_still(benches[group[2]], group, cases)
            for case, value in ours.items():
                values.setdefault(case, []).append(value)
            for peer, value in theirs.items():
                peer_values.setdefault((peer, group), []).append(value)
    results = []
    for group, cases in groups.items():
        figure = group[0]
        for case in cases:
            for peer in peers_of(case):
                others = peer_values[peer, group]
                pairs = [(ours, theirs) for ours, theirs in zip(values[case], others) if theirs]
                results.append({
                    "bench": "soft", "case": case,
                    "value": round(statistics.median(values[case]), 4), "unit": UNITS[figure],
                    "peer": peer,
                    "peer_value": round(statistics.median(theirs for _, theirs in pairs), 4)
                    if pairs else None,
                    "ratio": round(statistics.median(a / b for a, b in pairs), 3)
                    if pairs else None,
                    "rounds": rounds})
    return results


def judge(gate, results):
    """The verdict on a gate, and why."""
    ratios = {each["peer"]: each["ratio"] for each in results if each["case"] == gate.case}
    ratio = ratios.get(gate.peer)
    if ratio is None:
        return "skip", "no figure"
    why = f"{ratio:.2f}, at {'most' if gate.at_most else 'least'} {gate.limit:g}"
    if ratio <= gate.limit if gate.at_most else ratio >= gate.limit:
        return "ok", why
    if gate.floor and ratios.get(gate.floor[0]) is not None:
        peer, limit = gate.floor
        alone = ratio / ratios[peer]
        if alone > gate.limit:
            why += (f"; {peer} alone is {alone:.2f}, and of that we are {ratios[peer]:.2f}, "
                    f"at most {limit:g}")
            return "ok" if ratios[peer] <= limit else "FAIL", why
    return "FAIL", why


def check(results, gates, out, absent):
    """Prints a line per gate. Returns how many held, were missed, and could not be decided."""
    counts = {"ok": 0, "FAIL": 0, "skip": 0}
    for gate in gates:
        verdict, why = judge(gate, results)
        why = absent.get(gate.case, why)
        counts[verdict] += 1
        print(f"{verdict} {gate.case} / {gate.peer}: {why}", file=out)
    return counts


def table(results):
    form = "{:<22} {:>10} {:<6} {:<13} {:>10} {:>7}"
    print(form.format("case", "value", "unit", "peer", "its value", "ratio"))
    for each in results:
        shown = ["-" if each[key] is None else f"{each[key]:g}" for key in ("peer_value", "ratio")]
        print(form.format(each["case"], f"{each['value']:g}", each["unit"], each["peer"], *shown))


def report(name, results, gates, options, absent=None):
    """Prints the results as the options say. Returns the exit status. `absent` gives the reason for
    cases that do not exist here; their gates do not count as missed."""
    if options.json:
        for each in results:
            print(json.dumps(each, separators=(",", ":")))
    else:
        table(results)
    if not options.check:
        return 0
    out = sys.stderr if options.json else sys.stdout
    sys.stdout.flush()
    counts = check(results, gates, out, absent or {})
    print(f"{name}: {counts['ok']} passed, {counts['FAIL']} failed, {counts['skip']} skipped",
          file=out)
    return 1 if counts["FAIL"] else 0


def parse(description):
    """Parses the options that these benchmarks have in common."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="JSON lines only on stdout")
    parser.add_argument("--check", action="store_true", help="hold the figures against the gates")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", default="", help="the cases whose name contains this")
    return parser.parse_args()


def two_cores():
    """Two cores, or None with the reason on stderr."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) == 2:
        return cores
    print("two processes that spin need two cores", file=sys.stderr)
    return None


def numbers(text):
    """{0, 1, 2, 8} for "0-2,8"."""
    ranges = [part.split("-") for part in text.strip().split(",") if part]
    return {number for ends in ranges for number in range(int(ends[0]), int(ends[-1]) + 1)}


def shared_caches(processor, place):
    """{level: the processors that share this one's cache of that level}, from the kernel."""
    found = {}
    for index in place.glob(f"cpu{processor}/cache/index*"):
        if (index / "type").read_text().strip() != "Instruction":
            level = int((index / "level").read_text())
            found[level] = numbers((index / "shared_cpu_list").read_text())
    return found


def near_cores(processors, place=Path("/sys/devices/system/cpu")):
    """{level: two of the processors whose nearest common cache has that level}."""
    found = {}
    for first in sorted(processors):
        caches = shared_caches(first, place)
        for second in sorted(processors):
            common = [level for level, sharers in caches.items() if second in sharers]
            if second > first and common and min(common) in LEVELS:
                found.setdefault(min(common), [first, second])
    return found


def main():
    options = parse(__doc__)
    cores = two_cores()
    if cores is None:
        return CANNOT
    install_peers()
    near = near_cores(os.sched_getaffinity(0))
    groups = {key: kept for key, cases in all_cases(near).items()
              if (kept := [case for case in cases if options.only in case])}
    driver, missing = build(), set()
    benches = {level: Bench(driver, pair, missing) for level, pair in {0: cores, **near}.items()}
    results = measure(benches, groups, options.rounds)
    absent = {f"{NEAR}.l{level}": f"no two processors here have an L{level} as nearest common cache"
              for level in LEVELS if level not in near}
    return report("soft", results, GATES, options, absent)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Broken as reason:
        print(f"soft: {reason}", file=sys.stderr)
        sys.exit(1)
