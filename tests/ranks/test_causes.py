"""Causes and damage in runs of a few ranks by hand: work after the last collective, ranks with one like only, collectives without numbers.

test_causes.py, with CKINETO in the environment
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

from hand_made import Rank

if not os.environ.get("CKINETO"):
    print("run by ctest, which says where the command is: skipped")
    sys.exit(77)

STEPS = 5
HOST_US = 300.0  # of the optimizer, between the wait for the device and its launch


class Run:
    """A step: each rank computes, all reduce, the host waits for it, and launches a short kernel much later."""

    def __init__(self, ranks, work, numbered=True):
        self.ranks = [Rank(r, ranks) for r in range(ranks)]
        self.numbered = numbered
        self.now = [0.0] * ranks
        for step in range(STEPS):
            self.add_step(step, [work(r, step) for r in range(ranks)])
        self.length_us = max(self.now)

    def add_step(self, step, work):
        begin = list(self.now)
        arrival = max(at + 20 + us for at, us in zip(begin, work))
        for rank, at, us in zip(self.ranks, begin, work):
            rank.compute(at + 2, at + 20, at + 20 + us)
            rank.collect(at + 8, at + 22 + us, arrival + 50, step)
            rank.put("cuda_runtime", "cudaStreamSynchronize", 100, at + 14, arrival + 52, {})
            rank.compute(arrival + 52 + HOST_US, arrival + 62 + HOST_US, arrival + 162 + HOST_US)
            rank.put("cuda_runtime", "cudaStreamSynchronize", 100, arrival + 56 + HOST_US, arrival + 164 + HOST_US, {})
            rank.step(step, at, arrival + 166 + HOST_US)
        self.now = [arrival + 170 + HOST_US] * len(self.now)

    def collectives(self, rank):
        return [e["args"] for e in self.ranks[rank].events if "Seq" in e["args"]]

    def ask(self):
        with tempfile.TemporaryDirectory(prefix="ckineto-causes-") as folder:
            for rank in self.ranks:
                for event in rank.events:
                    if not self.numbered:
                        event["args"].pop("Seq", None)
                rank.write(folder)
            done = subprocess.run([os.environ["CKINETO"], "analyze", "--only", "rank_causes,rank_damage", folder, "--json"],
                                  capture_output=True, text=True, check=True)
        tables = json.loads(done.stdout)["tables"]
        return [[dict(zip(tables[name]["columns"], row)) for row in tables[name]["rows"]] for name in ("rank_causes", "rank_damage")]


class Causes(unittest.TestCase):
    def test_the_last_step_counts_as_the_others(self):
        """The work after its last collective is launched long after the host has waited for that."""
        causes, _ = Run(4, lambda rank, step: 1500.0 if rank == 2 else 1000.0).ask()
        self.assertEqual([(c["kind"], c["rank"]) for c in causes], [("device", 2)])
        self.assertAlmostEqual(causes[0]["saved_us"], 500.0 * STEPS, delta=0.07 * 500.0 * STEPS)

    def test_a_fault_of_the_last_step_is_seen(self):
        causes, _ = Run(4, lambda rank, step: 1500.0 if rank == 2 and step == STEPS - 1 else 1000.0).ask()
        self.assertEqual([(c["kind"], c["rank"], c["step"]) for c in causes], [("step", 2, STEPS - 1)])
        self.assertAlmostEqual(causes[0]["saved_us"], 500.0, delta=0.07 * 500.0)

    def test_a_long_host_after_the_last_collective_is_of_the_last_step(self):
        run = Run(4, lambda rank, step: 1000.0)
        kernel = [e for e in run.ranks[1].events if e["cat"] == "kernel"][-1]
        launch = [e for e in run.ranks[1].events if e["args"].get("correlation") == kernel["args"]["correlation"]][0]
        for event in kernel, launch:
            event["ts"] += 800.0
        causes, _ = run.ask()
        self.assertEqual([(c["kind"], c["rank"], c["step"]) for c in causes], [("step", 1, STEPS - 1)])
        self.assertAlmostEqual(causes[0]["saved_us"], 800.0, delta=5.0)

    def test_of_two_ranks_noise_is_of_neither(self):
        """Each of two ranks is the slower one in half of the steps, by 5 %."""
        draw = random.Random(7)
        noise = [[draw.gauss(1000.0, 50.0) for _ in range(STEPS)] for _ in range(2)]
        total = [sum(row) for row in noise]
        even = [[value + (max(total) - own) / STEPS for value in row] for row, own in zip(noise, total)]
        self.assertEqual(Run(2, lambda rank, step: even[rank][step]).ask()[0], [])
        causes, _ = Run(2, lambda rank, step: even[rank][step] * (1.3 if rank else 1.0)).ask()
        self.assertEqual([(c["kind"], c["rank"]) for c in causes], [("device", 1)])
        self.assertAlmostEqual(causes[0]["saved_us"], 300.0 * STEPS, delta=0.15 * 300.0 * STEPS)


class Damage(unittest.TestCase):
    def damage(self, change, numbered=False, rank=3):
        run = Run(5, lambda rank, step: 1000.0, numbered)
        change(run, rank)
        return [(d["kind"], d["rank"], d["group"], d["seq"]) for d in run.ask()[1]]

    def test_calls_without_numbers_are_compared_by_order(self):
        def other_size(run, rank):
            run.collectives(rank)[2].update({"In msg nelems": 2048, "Out msg nelems": 2048})

        def other_call(run, rank):
            event = [e for e in run.ranks[rank].events if "Seq" in e["args"]][2]
            event["name"] = event["name"].replace("AllReduce", "AllGather")
            event["args"]["Collective name"] = "_allgather_base"

        self.assertEqual(self.damage(other_size), [("wrong_size", 3, "0", 2)])
        self.assertEqual(self.damage(other_call), [("wrong_op", 3, "0", 2)])
        self.assertEqual(self.damage(other_call, True), [("wrong_op", 3, "0", 2)])
        self.assertEqual(self.damage(lambda run, rank: None), [])

    def test_a_step_that_lacks_a_call_is_not_compared_by_order(self):
        def drop(run, rank):
            run.ranks[rank].events = [e for e in run.ranks[rank].events if e["args"].get("Seq") != 2]

        self.assertEqual([d for d in self.damage(drop) if d[0].startswith("wrong")], [])

    def test_a_trace_that_ends_early_is_named_without_numbers(self):
        def cut(run, rank):
            half = run.length_us / 2 + 1e6
            run.ranks[rank].events = [e for e in run.ranks[rank].events if e["ts"] < half]

        self.assertEqual([d[:2] for d in self.damage(cut)], [("truncated", 3)])

    def test_a_trace_without_collectives_is_named(self):
        def drop(run, rank):
            run.ranks[rank].events = [e for e in run.ranks[rank].events if e["cat"] != "kernel"]

        for numbered in False, True:
            self.assertEqual([d[:2] for d in self.damage(drop, numbered)], [("truncated", 3)])


if __name__ == "__main__":
    unittest.main()
