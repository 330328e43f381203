# SPDX-License-Identifier: MIT OR Apache-2.0
"""One lane: its tests as they come in, and the means to run commands for it.

What the commands print goes to build/logs/LANE.log; a failure also shows on the terminal. Every
command ends when the lane's time is over, so nothing waits for ever.
"""
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

from gtest_report import FAILED, PASSED, SKIPPED, Case, tail

LOGS = Path("build/logs")
running = set()  # processes to end when we are told to stop


class Skip(Exception):
    """The lane cannot run here; the message says why."""


class Broken(Exception):
    """Something that is not a test, such as a build, failed."""


class Lane:
    def __init__(self, name, limit_s):
        self.name, self.counts = name, {PASSED: 0, FAILED: 0, SKIPPED: 0}
        self.start, self.skip_reason = time.monotonic(), None
        self.deadline = self.start + limit_s
        self.log, self.lock = LOGS / f"{name}.log", threading.Lock()
        self.log.write_text("")

    def left_s(self):
        return max(1, self.deadline - time.monotonic())

    def run(self, command, env=None):
        """Runs a command to its end and returns (exit status, output)."""
        command = [str(part) for part in command]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace",
                                   env=os.environ | (env or {}), start_new_session=True)
        running.add(process)
        try:
            output, late = process.communicate(timeout=self.left_s())[0], ""
        except subprocess.TimeoutExpired:
            output, late = end(process), f"lane {self.name} ran out of time in {command[0]}"
        running.discard(process)
        with self.lock, self.log.open("a") as log:
            log.write(f"$ {' '.join(command)}\n{output}{late}[status {process.returncode}]\n")
        if late:
            raise Broken(f"{tail(output)}\n{late}")
        return process.returncode, output

    def must(self, *command):
        """Runs a step without which the lane makes no sense."""
        status, output = self.run(command)
        if status != 0:
            raise Broken(f"{tail(output)}\n{' '.join(command)}: exit status {status}")

    def build(self, preset, *targets):
        """Builds only what the lane runs: most of the time of a whole run goes into compilers."""
        print(f"{self.name}: building {' '.join(targets)} (preset {preset})")
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
    """Ends a process and all it started; returns what it had printed."""
    for number in (signal.SIGTERM, signal.SIGKILL):  # first the chance to clean up
        try:
            os.killpg(process.pid, number)
            return process.communicate(timeout=10)[0]
        except (subprocess.TimeoutExpired, ProcessLookupError):
            continue
    return ""


def stop(number, _frame):
    """Signal handler: nothing that we started outlives us."""
    for process in running:
        os.killpg(process.pid, signal.SIGTERM)
    os._exit(128 + number)
