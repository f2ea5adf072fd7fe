"""ckineto diff of two recordings of a program: the first cause is the part that was made slower."""

import collections
import json

from waits_test import WaitsTest, main, program


class Changes(WaitsTest):
    USUAL = ("40", "1000", "0")  # rounds of a function, time of a lock, a sleep

    def record_changes(self, name, *arguments):
        done = self.run_command("record", "-q", "-o", name, "--waits", "--cpu=999", "--", program("waits_changes"),
                                *arguments)
        self.assertEqual(done.returncode, 0, done.err)

    def first_cause(self, before, after):
        """The first row of a function, call or lock: on a busy machine, waiting for a CPU may come before it."""
        done = self.run_command("diff", "--no-findings", "--json", before, after)
        self.assertEqual(done.returncode, 0, done.err)
        table = json.loads(done.out)["facts"]["tables"]["diff_summary"]
        rows = [dict(zip(table["columns"], row)) for row in table["rows"]]
        rows = [row for row in rows if row["kind"] in ("function", "call", "lock")]
        self.assertTrue(rows, "no difference")
        return rows[0]

    def test_the_first_row_names_what_changed(self):
        self.record_changes("usual.json", *self.USUAL)
        with open(self.path("usual.json"), encoding="utf-8") as file:
            has_samples = '"cpu_sample"' in file.read()
        cases = [(("40", "20000", "0"), ("lock shared_lock", "usleep")), (("40", "1000", "2"), ("sleep",))]
        if has_samples:
            cases.append((("240", "1000", "0"), ("slow_part",)))
        else:
            print("no CPU samples here: a slower function is not tested")
        for arguments, names in cases:
            self.record_changes("changed.json", *arguments)
            there, back = self.first_cause("usual.json", "changed.json"), self.first_cause("changed.json", "usual.json")
            self.assertIn(there["name"], names, arguments)
            self.assertGreater(there["delta_us"], 0)
            self.assertEqual((back["name"], back["delta_us"]), (there["name"], -there["delta_us"]))

    def test_stacks_have_no_more_time_than_threads(self):
        """Blocking calls and samples of the same threads are not added up."""
        self.record_changes("t.json", *self.USUAL)
        events = [e for e in self.load("t.json")["traceEvents"] if e.get("ph") == "X"]
        wall_ns = 1000 * (max(e["ts"] + e["dur"] for e in events) - min(e["ts"] for e in events))
        threads = {(e["pid"], e["tid"]) for e in events if e["cat"] in ("thread_state", "blocking_call")}
        for options in ((), ("--weight", "cpu"), ("--weight", "wall"), ("--weight", "off-cpu")):
            self.assertEqual(self.run_command("convert", "t.json", "-q", "-o", "t.folded", *options).returncode, 0)
            sums = collections.Counter()
            with open(self.path("t.folded"), encoding="utf-8") as file:
                for line in file:
                    stack, _, weight = line.rpartition(" ")
                    sums[tuple(stack.split(";")[:2])] += int(weight)
            self.assertLessEqual(len(sums), len(threads))
            for thread, ns in sums.items():
                self.assertLessEqual(ns, 1.05 * wall_ns + 20e6, (options, thread))  # of the rate of samples


if __name__ == "__main__":
    main()
