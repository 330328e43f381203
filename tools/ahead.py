# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds what later lanes need while the tests of a lane run, because tests mostly wait.

Only one build runs at a time. A lane asks has_built() for what it needs, and waits if that is being
built. A caller that has to build or measure uses pause(), which stops the build in the background
for that time. The background build has low priority. Its failures do not matter: the lane that
needs the build makes it again, and reports them.
"""
import os
import signal
import subprocess
import threading
from collections import deque
from contextlib import contextmanager

NICENESS = 10
# Where the kernel shares the processors among sessions first, `nice` has an effect only within one.
GIVE_WAY = f"{{ echo {NICENESS} >/proc/self/autogroup; }} 2>/dev/null; "


def build_command(preset, targets):
    """Like Lane.build(), but the process to wait for is ninja itself."""
    return ["nice", "-n", str(NICENESS), "sh", "-c", f'{GIVE_WAY}cmake --preset "$0" && exec "$@"',
            preset, "ninja", "-C", f"build/{preset}", "--quiet", *targets]


class Ahead:
    def __init__(self):
        self.steps, self.built, self.turn = deque(), set(), threading.Condition()
        self.wanted, self.process = 0, None  # pauses in effect; the running build

    def start(self, steps):
        """Runs the commands of these (name, command) one after another until stop()."""
        self.steps.extend(steps)
        threading.Thread(target=self.work, daemon=True).start()

    def work(self):
        while self.steps:
            with self.turn:
                self.turn.wait_for(lambda: self.wanted == 0)
                if not self.steps:
                    return
                name, command = self.steps[0]
                process = self.process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL, start_new_session=True)
            status = process.wait()
            with self.turn:
                self.process = None
                if status == 0:
                    self.built.add(name)
                if (status == 0 or self.wanted == 0) and self.steps:  # Otherwise it runs again.
                    self.steps.popleft()
                self.turn.notify_all()

    def has_built(self, name, limit_s):
        """Whether that step is done and was successful. Waits if it is the one that runs."""
        def runs():
            return self.process is not None and self.steps and self.steps[0][0] == name
        with self.turn:
            self.turn.wait_for(lambda: not runs(), limit_s)
            return name in self.built

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
        self.steps.clear()
        self.end()


ahead = Ahead()  # of this run of ./test
