# SPDX-License-Identifier: MIT OR Apache-2.0
"""One lane: its tests as they come in, and the means to run commands for it.

The output of the commands goes to build/logs/LANE.log; a failure also appears on the terminal.
Every command ends when the lane's time is over, so nothing waits for ever. The time limits are
those of an idle machine. If other programs use the processors, the limits grow (load.py).
"""
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import load
from ahead import ahead
from gtest_report import FAILED, PASSED, SKIPPED, Case, tail

LOGS = Path("build/logs")
PRESENT_S = 5  # the present load is that of the last seconds
running = set()  # processes to end when a signal stops us


class Skip(Exception):
    """The lane cannot run here; the message says why."""


class Broken(Exception):
    """Something that is not a test, such as a build, failed."""


class Lane:
    def __init__(self, name, limit_s):
        self.name, self.counts = name, {PASSED: 0, FAILED: 0, SKIPPED: 0}
        self.limit_s, self.skip_reason = limit_s, None
        self.began = load.look()
        self.looks = [self.began]
        self.log, self.lock = LOGS / f"{name}.log", threading.Lock()
        self.log.write_text("")

    def took_s(self):
        return time.monotonic() - self.began.at_s

    def patience(self, seconds, since=None):
        """Scales the seconds of an idle machine by the load since then, or by the latest load."""
        now = load.look()
        return seconds * load.factor(since or self.lately(now), now, len(load.processors()))

    def lately(self, now):
        """The last look that is old enough to show the present load."""
        with self.lock:
            if now.at_s - self.looks[-1].at_s > PRESENT_S:
                self.looks = [self.looks[-1], now]
            return self.looks[0]

    def left_s(self):
        """What is left of the lane's time, which grows with the load until it is over."""
        return self.patience(self.limit_s, self.began) - self.took_s()

    def most_s(self):
        """The longest that the lane waits in any case, for commands with their own time limit."""
        return max(1, load.MOST * self.limit_s - self.took_s())

    def run(self, command, env=None, limit_s=None):
        """Runs a command to its end and returns (exit status, output).

        The status is None if it had to be ended after `limit_s` seconds of an idle machine.
        """
        command, since = [str(part) for part in command], load.look()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace",
                                   env=os.environ | (env or {}), start_new_session=True)
        running.add(process)
        output, late = self.finish(process, since, limit_s)
        running.discard(process)
        with self.lock, self.log.open("a") as log:
            log.write(f"$ {' '.join(command)}\n{output}{late}[status {process.returncode}]\n")
        if late and self.left_s() <= 0:
            raise Broken(f"{tail(output)}\n{late}")
        return (None if late else process.returncode), output + late

    def finish(self, process, since, limit_s):
        """(what it printed, why it had to be ended). Checks the load when the time is up."""
        while True:
            took_s = time.monotonic() - since.at_s
            left_s, late = self.left_s(), f"lane {self.name} ran out of time in {process.args[0]}"
            if limit_s and (own_s := self.patience(limit_s, since) - took_s) < left_s:
                left_s, late = own_s, f"no end after {took_s:.0f} s, the limit is {limit_s} s"
            try:
                if left_s <= 0:
                    return end(process), f"\n{late}\n"
                return process.communicate(timeout=max(0.1, left_s))[0], ""
            except subprocess.TimeoutExpired:
                continue

    def must(self, *command):
        """Runs a step that the lane cannot do without."""
        status, output = self.run(command)
        if status != 0:
            raise Broken(f"{tail(output)}\n{' '.join(command)}: exit status {status}")

    def build(self, preset, *targets):
        """Builds only what the lane runs, because compilers take most of the time of a full run."""
        print(f"{self.name}: building {' '.join(targets)} (preset {preset})")
        if ahead.has_built((preset, *targets), self.left_s()):
            return
        with ahead.pause():
            self.must("cmake", "--preset", preset)
            self.must("cmake", "--build", "--preset", preset, "--target", *targets, "--", "--quiet")

    def add(self, case):
        self.counts[case.verdict] += 1
        if case.verdict == FAILED:
            print(f"FAILED {case.name}\n{case.detail}".rstrip())
        elif case.verdict == SKIPPED:
            print(f"skipped {case.name}: {case.detail}")

    def check(self, name, status, output):
        """Adds a test that is one command."""
        self.add(Case(name, FAILED if status else PASSED, tail(output)))


def end(process):
    """Ends a process and everything it started. Returns what it had printed."""
    for number in (signal.SIGTERM, signal.SIGKILL):  # it gets a chance to clean up first
        try:
            os.killpg(process.pid, number)
            return process.communicate(timeout=10)[0]
        except (subprocess.TimeoutExpired, ProcessLookupError):
            continue
    return ""


def stop(number, _frame):
    """Signal handler: ends everything that we started."""
    ahead.stop()
    for process in running:
        os.killpg(process.pid, signal.SIGTERM)
    os._exit(128 + number)
