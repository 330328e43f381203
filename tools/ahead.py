# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds what later lanes need while the tests of a lane run, which mostly wait.

One build at a time: whoever has to build or to measure now calls pause(), which ends the build in
the background until it is over. It is of low priority, and its failures are of no interest: the
lane that needs the build makes it again and tells.
"""
import os
import signal
import subprocess
import threading
from collections import deque
from contextlib import contextmanager

NICENESS = 10


def build_command(preset, targets):
    """As Lane.build() does it, but ninja itself is the process that is waited for."""
    return ["nice", "-n", str(NICENESS), "sh", "-c", 'cmake --preset "$0" && exec "$@"', preset,
            "ninja", "-C", f"build/{preset}", "--quiet", *targets]


class Ahead:
    def __init__(self):
        self.commands, self.turn = deque(), threading.Condition()
        self.wanted, self.process = 0, None  # who paused it, and what runs if nobody did

    def start(self, commands):
        """Runs these commands one after another until stop()."""
        self.commands.extend(commands)
        threading.Thread(target=self.work, daemon=True).start()

    def work(self):
        while self.commands:
            with self.turn:
                self.turn.wait_for(lambda: self.wanted == 0)
                if not self.commands:
                    return
                process = self.process = subprocess.Popen(
                    self.commands[0], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL, start_new_session=True)
            process.wait()
            with self.turn:
                self.process = None
                if self.wanted == 0 and self.commands:  # Else it was interrupted, and comes again.
                    self.commands.popleft()
                self.turn.notify_all()

    @contextmanager
    def pause(self):
        """Nothing is built in the background as long as the context lasts."""
        with self.turn:
            self.wanted += 1
            self.end()
            self.turn.wait_for(lambda: self.process is None)
        try:
            yield
        finally:
            with self.turn:
                self.wanted -= 1
                self.turn.notify_all()

    def end(self):
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGTERM)  # ninja leaves nothing half done
            except ProcessLookupError:
                pass

    def stop(self):
        """For good; nothing outlives us."""
        self.commands.clear()
        self.end()


ahead = Ahead()  # of this run of ./test
