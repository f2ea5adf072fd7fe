"""What must not change findings and tables of watched threads: threads that only wait, the order of threads; and
what watched threads must not change: findings about devices.

    CKINETO=build/bin/ckineto python3 test_threads.py"""

import copy
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
COMMAND = os.environ.get("CKINETO", "")

if not COMMAND:
    print("run by ctest, which says where the command is: skipped")
    sys.exit(77)

import cases_1  # noqa: E402
import cases_2  # noqa: E402
import cases_4  # noqa: E402

OWN = set(cases_4.CASES)
PROGRAMS = [fires for rule, (fires, _) in cases_4.CASES.items() if rule != "host.not_running"]


class Threads(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "t.json")

    def analyze(self, made, *options):
        made.save(self.path)
        done = subprocess.run([COMMAND, "analyze", "--json", *options, self.path], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def findings(self, made):
        """Without what names a thread or depends on the order of rows."""
        return sorted((f["id"], f.get("subject", ""), f.get("worth_us"), f["count"])
                      for f in self.analyze(made, "--findings")["findings"])

    def table(self, made, name):
        facts = self.analyze(made, "--only", name)["tables"]
        return next(t for t in facts if t["name"] == name) if isinstance(facts, list) else facts[name]

    def test_an_idle_thread_changes_no_finding(self):
        for make in PROGRAMS:
            before, made = self.findings(make()), make()
            made.state(7777, "blocked", 0, cases_4.SECOND // 2, function="poll")
            made.state(7777, "running", cases_4.SECOND // 2, 100, cpu=63)
            made.state(7777, "blocked", cases_4.SECOND // 2 + 100, cases_4.SECOND // 2 - 100, function="__GI___libc_read")
            self.assertEqual(self.findings(made), before)

    def test_the_order_of_threads_changes_nothing(self):
        for make in PROGRAMS:
            before, made = self.findings(make()), make()
            numbers = list(range(1000, 1010))
            random.Random(27).shuffle(numbers)
            for event in made.events:
                what, _, tid = str(event["tid"]).partition(" ")
                if tid:
                    event["tid"] = f"{what} {numbers[int(tid) - 1000]}"
                    if event["ph"] == "M":
                        event["args"] = {"name": f"thread {numbers[int(tid) - 1000]}: {what}"}
            random.Random(28).shuffle(made.events)
            self.assertEqual(self.findings(made), before)

    def assert_functions_within_running(self, path):
        """Sampled time of the functions of each thread is at most what its states say that it ran."""
        done = subprocess.run([COMMAND, "analyze", "--json", "-", "--only", "thread_states,thread_functions,cpu_functions",
                               path], stdout=subprocess.PIPE, timeout=120, check=True)
        tables = {name: [dict(zip(table["columns"], row)) for row in table["rows"]]
                  for name, table in json.loads(done.stdout)["tables"].items()}
        ran = {(r["pid"], r["thread"]): r["running_us"] for r in tables["thread_states"]}
        own = {}
        for row in tables["thread_functions"]:
            key = row["pid"], row["thread"]
            own[key] = own.get(key, 0) + row["self_us"]
        for key, us in own.items():
            if ran.get(key):
                self.assertLessEqual(us, ran[key] * (1 + 1e-9), (path, key))
        self.assertAlmostEqual(sum(own.values()), sum(r["self_us"] for r in tables["cpu_functions"]), delta=0.01)
        return own, tables["cpu_functions"]

    def test_functions_take_no_longer_than_their_thread_ran(self):
        chance = random.Random(11)
        for _ in range(20):
            made, counts = cases_4.plain(), {}
            for tid in range(1000, 1000 + chance.randint(1, 4)):
                counts[tid] = chance.randint(1, 9)
                made.samples(tid, "main", 0, 100_000, counts[tid])
                made.samples(tid, "leaf", 10, 50_000, chance.randint(0, counts[tid]), module="[kernel]")
                made.state(tid, "running", 0, chance.choice([50, 9_000, 80_000, 200_000]))
            made.save(self.path)
            _, functions = self.assert_functions_within_running(self.path)
            self.assertEqual(sum(f["own_samples"] for f in functions), sum(counts.values()))
        folder = os.path.join(HERE, "../data/watched")
        for name in sorted(os.listdir(folder)):
            self.assert_functions_within_running(os.path.join(folder, name))

    def test_time_alone_in_parallel_regions_is_no_law(self):
        """Whatever explains the time in which one thread is alone, the finding about serial parts does not deny it."""
        half = cases_4.SECOND // 2
        body = cases_4.serial(50)
        body.samples(1000, "heat._omp_fn.0", 0, half, 50)
        recorded = cases_4.serial(50)
        common = {"region": 1, "code": 4096}
        recorded.slice("openmp", "omp parallel heat (prog.c:7)", 0, cases_4.SECOND, tid=1000, threads=4, **common)
        for tid in range(1000, 1004):
            recorded.slice("openmp", "omp implicit task heat (prog.c:7)", 0,
                           cases_4.SECOND if tid == 1000 else half, tid=tid, thread=tid - 1000, threads=4, **common)
        plain, = (f for f in self.analyze(cases_4.serial(50), "--findings")["findings"] if f["id"] == "thread.serial")
        self.assertIn("if that part cannot be divided", plain["sentence"])
        found, = (f for f in self.analyze(body, "--findings")["findings"] if f["id"] == "thread.serial")
        self.assertNotIn("Amdahl", found["sentence"])
        self.assertIn("--openmp", found["advice"])
        ids = [f["id"] for f in self.analyze(recorded, "--findings")["findings"]]
        self.assertIn("openmp.imbalance", ids)
        self.assertNotIn("thread.serial", ids)

    def test_a_region_is_never_shorter_than_its_work_on_the_cpus(self):
        chance = random.Random(12)
        for _ in range(20):
            threads, cpus = chance.randint(2, 8), chance.randint(1, 8)
            lengths = [1000] + [chance.randint(1, 1000) for _ in range(threads - 1)]
            made = cases_2.regions(lengths)
            for cpu in range(cpus):
                made.state(100 + cpu, "running", 0, 100, cpu=cpu)
            table, = self.analyze(made, "--only", "openmp_regions")["tables"].values()
            row = dict(zip(table["columns"], table["rows"][0]))
            shortest = 10 * sum(lengths) / min(threads, cpus)
            self.assertGreaterEqual(row["sum_us"] - row["savings_us"], min(shortest, row["sum_us"]) - 0.02, (lengths, cpus))

    def headline(self, made):
        made.save(self.path)
        done = subprocess.run([COMMAND, self.path], stdout=subprocess.PIPE, timeout=120, check=True)
        return " ".join(done.stdout.decode().split("\n\n")[0].split())

    def test_headlines_name_no_share_of_few_samples_and_no_function_of_the_kernel(self):
        for count in (1, 7, 49):
            line = self.headline(cases_4.sampled(("f", count), states=True))
            self.assertIn(f"Only {count} CPU sample{'s were' if count > 1 else ' was'} taken", line)
            self.assertNotRegex(line, r"f takes|of the CPU time")
        self.assertIn("f takes 100 % of the CPU time", self.headline(cases_4.sampled(("f", 50), states=True)))
        made = cases_4.sampled(("f", 20), states=True)
        for n, name in enumerate(("finish_task_switch.isra.0", "_raw_spin_unlock_irqrestore", "schedule")):
            made.samples(1001, name, 400_000 * n, 400_000, 40, module="[kernel]")
        line = self.headline(made)
        self.assertIn("86 % of the CPU time is in the kernel", line)
        self.assertNotIn("finish_task_switch", line)
        found, = (f for f in self.analyze(made, "--findings")["findings"] if f["id"] == "cpu.hot_function")
        self.assertNotIn("finish_task_switch", found["sentence"])
        self.assertIn("85.7 %", found["sentence"])

    def test_states_add_up_to_the_life_of_a_thread(self):
        for make in PROGRAMS[:3]:
            made, lives = make(), {}
            for event in made.events:
                if event.get("cat") == "thread_state":
                    lives[event["tid"]] = lives.get(event["tid"], 0) + event["dur"]
            rows = self.analyze(made, "--only", "thread_states")
            text = json.dumps(rows)
            for life in lives.values():
                self.assertIn(str(life), text)

    def test_watched_threads_do_not_change_findings_about_devices(self):
        cases = {**cases_1.CASES, **cases_2.CASES}
        watched = cases_4.round_robin(4, 2)
        for rule, (fires, _) in cases.items():
            made = fires()
            if isinstance(made, list) or not made.vendor:
                continue
            before = [f for f in self.findings(copy.deepcopy(made)) if f[0] not in OWN]
            made.events += watched.events
            self.assertEqual([f for f in self.findings(made) if f[0] not in OWN], before, rule)


if __name__ == "__main__":
    unittest.main()
