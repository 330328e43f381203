# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs as tests of a lane: one by itself, or a server and a client on this machine.

Every process has a time limit, longer on a busy machine, and none outlives its test.
"""
import os
import re
import subprocess
import time
from pathlib import Path

from gtest_report import FAILED, PASSED, Case, tail
from lane import end, running
from listeners import free_port, listens

BUILD = Path("build/release").absolute()
PRELOAD = BUILD / "lib/libverbatim-preload.so"
ALONE = BUILD / "lib/verbatim/libibverbs.so.1"
PROGRAM = BUILD / "bin/verbatim"
LINKS = ("ib", "eth")
# Only what hangs takes so long, also where a processor is gone for seconds.
LIMIT_S = 120  # for one process
LISTEN_S = 60  # until a server listens


def environment(**more):
    """The environment, with our variables from the lane and not from the caller's shell."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VERBATIM_")}
    return kept | {"LC_ALL": "C"} | {name: str(value) for name, value in more.items()}


def start(command, env):
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, env=env,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True)
    running.add(process)
    return process


class Tests:
    """Runs programs, adds the outcome of each test to the lane, and the output to its log."""

    def __init__(self, lane):
        self.lane, self.last = lane, time.monotonic()

    def finish(self, process, limit_s=LIMIT_S):
        """(exit status, output); the status is None if the process had to be ended."""
        limit_s = min(self.lane.patience(limit_s), self.lane.most_s())
        try:
            output, status = process.communicate(timeout=limit_s)[0], process.returncode
        except subprocess.TimeoutExpired:
            output, status = end(process) + f"\nno end after {limit_s:.0f} s", None
        running.discard(process)
        return status, output

    def run(self, command, env, limit_s=LIMIT_S):
        return self.finish(start(command, env), limit_s)

    def listens(self, port, process):
        return listens(port, process, self.lane.patience(LISTEN_S))

    def add(self, name, problem, output=""):
        took_s, self.last = time.monotonic() - self.last, time.monotonic()
        with self.lane.log.open("a") as log:
            log.write(f"== {name}: {problem or 'passed'}, {took_s:.2f} s\n{output}\n")
        detail = f"{tail(output)}\n{problem}, after {took_s:.1f} s" if problem else ""
        self.lane.add(Case(name, FAILED if problem else PASSED, detail))

    def lines(self, name, status, output):
        """A program that prints "ok" or "FAIL" for each of its checks."""
        checks = re.findall(r"^(ok|FAIL) (.*)$", output, re.M)
        for verdict, what in checks:
            self.add(f"{name}: {what}", "" if verdict == "ok" else what)
        failed = any(verdict == "FAIL" for verdict, _ in checks)
        if not checks or (status != 0) != failed:
            self.add(name, f"exit status {status}", output)

    def pair(self, name, command, env):
        """A server and a client, both of which have to succeed."""
        port = free_port()
        server = start([*command, "-p", port], env)
        if not self.listens(port, server):
            return self.add(name, "the server does not listen", self.finish(server, 1)[1])
        client_status, client_output = self.run([*command, "-p", port, "localhost"], env)
        status, output = self.finish(server)
        problem = ""
        if client_status != 0 or status != 0:
            problem = f"exit status of the client {client_status}, of the server {status}"
        if re.search(r"error|fail|mismatch|invalid data", client_output + output, re.I):
            problem = problem or "it ends with 0, and speaks of an error"
        return self.add(name, problem, client_output + output)
