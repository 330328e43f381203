# SPDX-License-Identifier: MIT OR Apache-2.0
"""How long a lane waits: longer if others use the processors, at most four times as long."""
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import lane  # noqa: E402
import load  # noqa: E402
from load import Look  # noqa: E402


class Factor(unittest.TestCase):
    def test_is_one_on_an_idle_machine(self):
        self.assertEqual(load.factor(Look(0, 0, 0), Look(10, 0, 0), 2), 1)

    def test_is_one_where_all_the_load_is_ours(self):
        self.assertEqual(load.factor(Look(0, 5, 5), Look(10, 25, 25), 2), 1)

    def test_is_two_where_others_take_half(self):
        self.assertEqual(load.factor(Look(0, 0, 0), Look(10, 20, 10), 2), 2)

    def test_is_four_at_most(self):
        self.assertEqual(load.factor(Look(0, 0, 0), Look(10, 20, 0), 2), load.MOST)
        self.assertEqual(load.factor(Look(0, 0, 0), Look(10, 99, 0), 2), load.MOST)

    def test_is_one_where_too_little_was_seen_or_counters_disagree(self):
        self.assertEqual(load.factor(Look(0, 0, 0), Look(0.5, 1, 0), 2), 1)
        self.assertEqual(load.factor(Look(0, 0, 0), Look(10, 0, 3), 2), 1)


class Counters(unittest.TestCase):
    def test_of_the_processors_that_we_may_use_count_busy_and_stolen(self):
        text = ("cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 100 200 300 4000 5000 10 20 30 0 0\n"
                "cpu1 100 0 0 0 0 0 0 0 0 0\nintr 7\n")
        self.assertEqual(load.busy_s(text, {0}), 660 / load.TICKS)
        self.assertEqual(load.busy_s(text, {0, 1}), 760 / load.TICKS)

    def test_what_we_use_is_ours(self):
        before, end_s = load.ours_s(), time.process_time() + 0.2
        while time.process_time() < end_s:
            pass
        self.assertGreaterEqual(load.ours_s() - before, 0.15)

    def test_what_cannot_be_read_is_no_load(self):
        with mock.patch.object(Path, "read_text", side_effect=OSError):
            self.assertEqual(load.look()[1:], (0, 0))


class Waiting(unittest.TestCase):
    """A lane under a load that the test chooses: a function from seconds to the factor."""

    def lane_of(self, limit_s, busy):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        start = time.monotonic()
        # The factor depends on the last look only.
        patches = (mock.patch.object(lane, "LOGS", Path(place.name)),
                   mock.patch.object(load, "factor",
                                     lambda before, now, _: busy(now.at_s - start)))
        for each in patches:
            each.start()
            self.addCleanup(each.stop)
        return lane.Lane("test", limit_s)

    def test_patience_is_that_many_times_as_long(self):
        self.assertEqual(self.lane_of(1, lambda _: 2.5).patience(40), 100)

    def test_lane_ends_in_time_on_an_idle_machine(self):
        tested = self.lane_of(0.3, lambda _: 1)
        with self.assertRaisesRegex(lane.Broken, "ran out of time"):
            tested.run(["sleep", "300"])
        self.assertLess(tested.took_s(), 250)

    # The factors are larger than those of load.py: the real machine may also be busy.
    def test_load_that_came_later_counts_too(self):
        tested = self.lane_of(0.5, lambda now_s: 1 if now_s < 0.2 else 500)
        self.assertEqual(tested.run(["sleep", "1"])[0], 0)

    def test_command_has_a_limit_of_its_own(self):
        with tempfile.TemporaryDirectory() as place:
            said = Path(place, "said")
            # A little more time than has passed, until the command has begun.
            tested = self.lane_of(6000, lambda now_s: 1 if said.exists() else (now_s + 0.1) / 0.3)
            command = f"echo hello; touch '{said}'; sleep 300"
            status, output = tested.run(["sh", "-c", command], limit_s=0.3)
        self.assertIsNone(status)
        self.assertRegex(output, "hello\n(.|\n)*no end after")
        self.assertLess(tested.took_s(), 250)

    def test_limit_of_a_command_waits_for_a_busy_machine(self):
        tested = self.lane_of(6000, lambda _: 500)
        self.assertEqual(tested.run(["sleep", "1"], limit_s=0.5)[0], 0)


if __name__ == "__main__":
    sys.exit(unittest.main())
