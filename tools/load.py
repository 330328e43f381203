# SPDX-License-Identifier: MIT OR Apache-2.0
"""How much of the machine other programs use, so that time limits can grow on a busy machine.

This measures the time that the processors we may use spent on other programs: what /proc/stat
counts as busy or as stolen by another machine, less what we and our descendants used. The load
average and /proc/pressure would count our own lane, too, which is as busy as it can be while it
builds; our own work must not raise its limits. In a container, /proc/stat is that of the host, so
it includes neighbours that we cannot see. If it cannot be read, we assume that we are alone.
"""
import os
import time
from pathlib import Path
from typing import NamedTuple

MOST = 4  # beyond this factor the load is not the reason
LEAST_S = 1  # below this, the ticks of the clock are too coarse
TICKS = os.sysconf("SC_CLK_TCK")
BUSY = (0, 1, 2, 5, 6, 7)  # of a line of /proc/stat: user nice system irq softirq steal


class Look(NamedTuple):
    """The values of the counters at one time. All of them only grow."""
    at_s: float
    busy_s: float  # of the processors that we may use
    ours_s: float


def factor(before, now, processors):
    """How many times longer work takes than on an idle machine, from two looks; 1 to MOST."""
    if now.at_s - before.at_s < LEAST_S:
        return 1.0
    whole = (now.at_s - before.at_s) * processors
    others = max(0.0, (now.busy_s - before.busy_s) - (now.ours_s - before.ours_s))
    return min(MOST, whole / max(whole - others, whole / MOST))


def processors():
    return os.sched_getaffinity(0)


def look():
    try:
        text = Path("/proc/stat").read_text()
        return Look(time.monotonic(), busy_s(text, processors()), ours_s())
    except (OSError, ValueError, IndexError):
        return Look(time.monotonic(), 0.0, 0.0)


def busy_s(text, which):
    lines = (line.split() for line in text.splitlines())
    wanted = {f"cpu{number}" for number in which}
    return sum(int(words[1 + field]) for words in lines if words and words[0] in wanted
               for field in BUSY) / TICKS


def ours_s():
    """The time of this process and its descendants, including those that were waited for."""
    below, used = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # It has just ended.
                continue
            pid = int(entry.name)
            below.setdefault(int(words[1]), []).append(pid)
            used[pid] = sum(map(int, words[11:15]))  # utime, stime, and of children waited for
    total, rest = 0, [os.getpid()]
    while rest:
        pid = rest.pop()
        total += used.get(pid, 0)
        rest += below.get(pid, [])
    return total / TICKS
