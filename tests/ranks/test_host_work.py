"""Ranks without a device whose operators and pauses are interrupted at random, as on processors that are shared: what a rank has
to do in each step is found, although single steps differ by several times as much.

test_host_work.py, with CKINETO in the environment.
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

RANKS, STEPS, OPERATORS = 4, 20, 20
OPERATOR_US, PAUSE_US, TRANSFER_US = 100.0, 10.0, 200.0
INTERRUPTION_US, INTERRUPTED_SHARE = 4000.0, 0.05

if not os.environ.get("CKINETO"):
    print("run by ctest, which says where the command is: skipped")
    sys.exit(77)


class Rank:
    """The main thread of a process computes, one of its group communicates."""

    def __init__(self, rank, numbers):
        self.rank, self.pid, self.numbers, self.now, self.events = rank, 1000 * (rank + 1), numbers, 0.0, []

    def put(self, category, name, start, end, thread=0, **args):
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": self.pid, "tid": self.pid + thread,
                            "ts": round(1e6 + start, 3), "dur": round(end - start, 3), "args": args})

    def spend(self, us):
        """@return when it is done, perhaps after another process had the processor."""
        self.now += us * self.numbers.uniform(0.98, 1.05)
        if self.numbers.random() < INTERRUPTED_SHARE:
            self.now += INTERRUPTION_US * self.numbers.uniform(0.5, 1.5)

    def operate(self, name, us=OPERATOR_US):
        begin = self.now
        self.spend(us)
        self.put("cpu_op", name, begin, self.now)
        self.spend(PAUSE_US)

    def write(self, folder):
        group = {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cpu:gloo", "pg_size": RANKS, "ranks": list(range(RANKS))}
        trace = {"schemaVersion": 1, "host_name": "node000", "traceEvents": self.events, "distributedInfo": {
            "backend": "gloo", "rank": self.rank, "world_size": RANKS, "pg_count": 1, "pg_config": [group]}}
        with open(f"{folder}/rank{self.rank}.json", "w", encoding="utf-8") as file:
            json.dump(trace, file)


def run_step(ranks, number, plant):
    """plant(rank, step): operators more, microseconds of sleep, what operators take longer."""
    begins, issued = [r.now for r in ranks], []
    for r in ranks:
        more, sleep, factor = plant(r.rank, number)
        for nth in range(OPERATORS + more):
            r.operate("aten::mm", OPERATOR_US * factor)
            r.spend(sleep if nth == OPERATORS // 2 else 0)
        issued.append(r.now)
        r.now += 20
        r.put("cpu_op", "c10d::allreduce_", issued[-1], r.now)
    end = max(issued) + TRANSFER_US
    for r, begin, at in zip(ranks, begins, issued):
        r.put("user_annotation", "gloo:all_reduce", at + 10, end, thread=7, **{"Input Dims": [[64]]})
        r.now = end
        r.spend(PAUSE_US)
        r.put("user_annotation", f"ProfilerStep#{number}", begin, r.now)


def make_run(folder, seed, plant):
    os.makedirs(folder)
    ranks = [Rank(rank, random.Random(f"{seed} {rank}")) for rank in range(RANKS)]
    for step in range(STEPS):
        run_step(ranks, step, plant)
    for r in ranks:
        r.write(folder)


def causes_of(path):
    done = subprocess.run([os.environ["CKINETO"], "analyze", "--only", "rank_causes", "--json", path],
                          capture_output=True, text=True, check=True)
    table = json.loads(done.stdout)["tables"]["rank_causes"]
    return [(row["kind"], row["rank"]) for row in (dict(zip(table["columns"], row)) for row in table["rows"])], done.stdout


class HostWork(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="ckineto-host-work-")
        self.addCleanup(place.cleanup)
        self.folder = place.name

    def named(self, seed, plant):
        make_run(f"{self.folder}/{seed}", seed, plant)
        return causes_of(f"{self.folder}/{seed}")[0]

    def check_plant(self, plant_of):
        for seed in range(6):
            rank = seed % RANKS
            plant, nothing = plant_of(seed), (0, 0, 1)
            found = self.named(seed, lambda r, step, at=rank, what=plant: what if r == at else nothing)
            self.assertEqual(found, [("host", rank)], (seed, plant))

    def test_more_operators(self):
        self.check_plant(lambda seed: (20, 0, 1))

    def test_longer_operators(self):
        self.check_plant(lambda seed: (0, 0, 2))

    def test_sleep(self):
        self.check_plant(lambda seed: (0, 2000, 1))

    def test_nothing(self):
        for seed in range(12):
            self.assertEqual(self.named(seed, lambda r, step: (0, 0, 1)), [], seed)

    def test_one_long_step(self):
        found = self.named(1, lambda r, step: (0, 60000 if (r, step) == (2, 9) else 0, 1))
        self.assertEqual(found, [("step", 2)])

    def test_facts_say_the_same(self):
        self.named(3, lambda r, step: (10 if r == 1 else 0, 0, 1))
        subprocess.run([os.environ["CKINETO"], "facts", f"{self.folder}/3", "-o", f"{self.folder}/facts"], check=True, capture_output=True)
        self.assertEqual(causes_of(f"{self.folder}/facts"), causes_of(f"{self.folder}/3"))


if __name__ == "__main__":
    unittest.main()
