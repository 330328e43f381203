# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is built ahead of the lanes: one thing at a time, and nothing during another build."""
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from ahead import GIVE_WAY, Ahead  # noqa: E402

LIMIT_S = 120  # for what takes no time


class Building(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place, self.tested = Path(place.name), Ahead()
        self.addCleanup(self.tested.stop)

    def shell(self, text):
        """A step; its name is what it runs."""
        return text, ["sh", "-c", f"cd '{self.place}'; {text}"]

    def said(self, text):
        """Whether the commands write this within the time limit."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            log = self.place / "log"
            if log.exists() and log.read_text() == text:
                return True
            time.sleep(0.01)  # tidy: between two looks
        return False

    def test_is_done_in_order_whatever_fails(self):
        self.tested.start([self.shell("echo one >> log; exit 1"), self.shell("echo two >> log")])
        self.assertTrue(self.said("one\ntwo\n"))

    def test_is_interrupted_by_a_pause_and_repeated_after_it(self):
        slow = "echo begin >> log; [ -e quick ] || sleep 100; echo end >> log"
        self.tested.start([self.shell(slow), self.shell("echo next >> log")])
        self.assertTrue(self.said("begin\n"))
        with self.tested.pause():
            self.assertIsNone(self.tested.process)
            (self.place / "quick").touch()
            self.assertTrue(self.said("begin\n"))
        self.assertTrue(self.said("begin\nbegin\nend\nnext\n"))

    def test_is_known_as_built_if_it_succeeded(self):
        self.tested.start([self.shell("echo one >> log"), self.shell("exit 1"),
                           self.shell("while [ ! -e go ]; do sleep 0.01; done; echo end >> log")])
        self.assertTrue(self.said("one\n"))
        self.assertTrue(self.tested.has_built("echo one >> log", LIMIT_S))
        self.assertFalse(self.tested.has_built("exit 1", LIMIT_S))
        self.assertFalse(self.tested.has_built("another", LIMIT_S))
        (self.place / "go").touch()
        self.assertTrue(self.said("one\nend\n"))

    def test_is_waited_for_while_it_runs(self):
        slow = "echo begin >> log; while [ ! -e go ]; do sleep 0.01; done"
        self.tested.start([self.shell(slow)])
        self.assertTrue(self.said("begin\n"))
        self.assertFalse(self.tested.has_built(slow, 0.05), "the limit is over before its end")
        (self.place / "go").touch()
        self.assertTrue(self.tested.has_built(slow, LIMIT_S))

    def test_does_not_begin_in_a_pause(self):
        with self.tested.pause():
            self.tested.start([self.shell("echo one >> log")])
            self.assertIsNone(self.tested.process)
        self.assertTrue(self.said("one\n"))

    @unittest.skipUnless(Path("/proc/self/autogroup").exists(), "sessions have no priority here")
    def test_gives_way_to_other_sessions(self):
        look = "sed 's/.*nice/nice/' /proc/self/autogroup > log"
        self.tested.start([self.shell(GIVE_WAY + look)])
        self.assertTrue(self.said("nice 10\n"))

    def test_ends_with_stop(self):
        self.tested.start([self.shell("echo begin >> log; sleep 100"), self.shell("echo >> log")])
        self.assertTrue(self.said("begin\n"))
        process = self.tested.process
        self.tested.stop()
        self.assertNotEqual(process.wait(LIMIT_S), 0)
        self.assertTrue(self.said("begin\n"))


if __name__ == "__main__":
    sys.exit(unittest.main())
