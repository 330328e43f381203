# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds what later lanes need while the tests of a lane run, because tests mostly wait.

Only one build runs at a time. A caller that has to build or measure uses pause(), which stops the
build in the background for that time. The background build has low priority. Its failures do not
matter: the lane that needs the build makes it again, and reports them.
"""
import os
import signal
import subprocess
import threading
from collections import deque
from contextlib import contextmanager

NICENESS = 10


def build_command(preset, targets):
    """Like Lane.build(), but the process to wait for is ninja itself."""
    return ["nice", "-n", str(NICENESS), "sh", "-c", 'cmake --preset "$0" && exec "$@"', preset,
            "ninja", "-C", f"build/{preset}", "--quiet", *targets]


class Ahead:
    def __init__(self):
        self.commands, self.turn = deque(), threading.Condition()
        self.wanted, self.process = 0, None  # pauses in effect; the running build

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
                if self.wanted == 0 and self.commands:  # Otherwise it runs again.
                    self.commands.popleft()
                self.turn.notify_all()

    @contextmanager
    def pause(self):
        """Stops building in the background for as long as the context lasts."""
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
        """Stops for good, so that nothing outlives us."""
        self.commands.clear()
        self.end()


ahead = Ahead()  # of this run of ./test
