# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which processors ./bench soft uses, what happens to gates without a figure, and to latencies when
the host moves the processors."""
import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import soft  # noqa: E402


class NearCores(unittest.TestCase):
    def near(self, sharers, processors):
        """sharers: {processor: {level: list}}."""
        with tempfile.TemporaryDirectory() as place:
            for processor, levels in sharers.items():
                entries = [("Data", level, text) for level, text in levels.items()]
                for number, entry in enumerate([("Instruction", 1, "0-7"), *entries]):
                    index = Path(place, f"cpu{processor}/cache/index{number}")
                    index.mkdir(parents=True)
                    for name, text in zip(("type", "level", "shared_cpu_list"), entry):
                        (index / name).write_text(f"{text}\n")
            return soft.near_cores(processors, Path(place))

    def test_are_found_for_each_level(self):
        # Two threads per core (n and n + 4), two cores per L2, all in one L3.
        machine = {n: {1: f"{n % 4},{n % 4 + 4}", 2: "0-1,4-5" if n % 4 < 2 else "2-3,6-7",
                       3: "0-7"} for n in range(8)}
        self.assertEqual(self.near(machine, range(8)), {1: [0, 4], 2: [0, 1], 3: [0, 2]})
        self.assertEqual(self.near(machine, {1, 2, 6}), {1: [2, 6], 3: [1, 2]})

    def test_are_not_there_where_nothing_is_shared_or_told(self):
        self.assertEqual(self.near({0: {1: "0", 3: "0"}, 1: {1: "1", 3: "1"}}, {0, 1}), {})
        self.assertEqual(self.near({}, {0, 1}), {})


class Gates(unittest.TestCase):
    def counts(self, ratios, absent=None):
        results = [{"case": case, "peer": peer, "ratio": ratio}
                   for (case, peer), ratio in ratios.items()]
        out = io.StringIO()
        return soft.check(results, soft.GATES, out, absent or {}), out.getvalue()

    def test_without_a_pair_of_processors_are_told_and_not_missed(self):
        counts, out = self.counts({}, {"write.lat.8.buffer.l1": "nobody shares"})
        self.assertEqual(counts, {"ok": 0, "FAIL": 0, "skip": len(soft.GATES)})
        self.assertIn("skip write.lat.8.buffer.l1 / ucx.put_lat: nobody shares\n", out)

    def test_hold_near_processors_and_the_rate_of_sends(self):
        good = {("write.lat.8.buffer.l3", "ucx.put_lat"): 1.1,
                ("send.rate.8.buffer", "ucx.tag_rate"): 0.9}
        bad = {("write.lat.8.buffer.l3", "ucx.put_lat"): 1.11,
               ("send.rate.8.buffer", "ucx.tag_rate"): 0.89}
        self.assertEqual(self.counts(good)[0]["ok"], 2)
        self.assertEqual(self.counts(bad)[0]["FAIL"], 2)


class FakeBench:
    """Its processors are moved during the first measurements."""
    def __init__(self, moves):
        self.moves, self.hand_off, self.runs = moves, 0.05, 0

    def peer(self, name, _figure, _size):
        return self.hand_off if name == "cacheline" else 0.06

    def drive(self, _case):
        self.runs += 1
        if self.runs <= self.moves:
            self.hand_off = 0.05 if self.hand_off > 0.1 else 0.22
        return float(self.runs)


class Still(unittest.TestCase):
    def value_after(self, moves, figure="lat"):
        case = f"write.{figure}.8.buffer"
        with contextlib.redirect_stderr(io.StringIO()):
            found, _ = soft.measure_still(FakeBench(moves), (figure, 8, 0, "write"), [case])
        return found[case]

    def test_latencies_are_measured_again_if_the_processors_were_moved(self):
        self.assertEqual(self.value_after(0), 1)
        self.assertEqual(self.value_after(2), 3)
        self.assertEqual(self.value_after(99), soft.MOST_LOOKS)

    def test_rates_are_not(self):
        self.assertEqual(self.value_after(99, "rate"), soft.TRIES)


if __name__ == "__main__":
    sys.exit(unittest.main())
