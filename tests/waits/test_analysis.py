"""The tables and findings of recorded waits, against what the program knows."""

import json
import os
import sys
import tempfile

from waits_test import TARGET, WaitsTest, main


class Analysis(WaitsTest):
    def tables(self, *names):
        done = self.run_command("analyze", "--only", ",".join(names), "--json=a.json", "t.json")
        self.assertEqual(done.returncode, 0, done.err)
        with open(self.path("a.json"), encoding="utf-8") as f:
            tables = json.load(f)["tables"]
        return {name: [dict(zip(table["columns"], row)) for row in table["rows"]] for name, table in tables.items()}

    def test_locks(self):
        printed = self.record(TARGET, "contended", "10", waits="")
        row, = [r for r in self.tables("locks")["locks"] if r["lock"].startswith("the_lock (0x")]
        self.assertIn(f"{int(printed['address']):x}", row["lock"])
        self.assertEqual((row["waits"], row["threads"], row["holder_in"]), (10, 1, "nanosleep"))
        self.assertTrue(row["holder"].startswith(f"thread {printed['holder']}"), row)
        self.assertGreaterEqual(row["sum_us"], 10 * 2000)
        self.assertLessEqual(row["sum_us"], int(printed["waited_ns"]) / 1000)
        self.assertEqual(row["sum_us"], row["most_us"])
        self.assertEqual(row["sum_us"], row["holder_us"])
        self.assertGreaterEqual(row["in_us"], 10 * 2000)
        self.assertLessEqual(row["in_us"], row["sum_us"])

    def test_blocking_calls(self):
        with tempfile.TemporaryDirectory() as folder:
            printed = self.record(TARGET, "counts", folder, "20")
            rows = self.tables("blocking_calls")["blocking_calls"]
            file = os.path.join(folder, "counted")
        for function in ("open", "write", "fsync", "pread", "readv"):
            row, = [r for r in rows if r["function"] == function and r["object"] == file]
            self.assertEqual((row["count"], row["errors"]), (20, 0))
            if function not in ("open", "fsync"):
                self.assertEqual(row["bytes"], int(printed[f"bytes {function}"]))
        row, = [r for r in rows if r["function"] == "pthread_cond_timedwait"]
        self.assertEqual((row["count"], row["errors"]), (20, 20))
        self.assertTrue(row["object"].startswith("condition (0x"), row)
        row, = [r for r in rows if r["function"] == "sem_wait"]
        self.assertTrue(row["object"].startswith("semaphore (0x"), row)

    def test_short_calls(self):
        with tempfile.TemporaryDirectory() as folder:
            self.record(TARGET, "byte_by_byte", os.path.join(folder, "f"), "3000", waits="=1000000000")
        row, = [r for r in self.tables("blocking_calls")["blocking_calls"] if r["function"] == "write"]
        self.assertEqual((row["object"], row["count"], row["bytes"]), ("(below the threshold)", 3000, 3000))
        self.assertGreater(row["sum_us"], 0)

    def test_the_finding_names_lock_and_holder(self):
        printed = self.record(TARGET, "contended", "10", waits="")
        done = self.run_command("analyze", "--findings", "t.json")
        text = " ".join(done.out.decode().split())
        self.assertIn("Lock contention: lock the_lock (0x", text)
        self.assertIn(f"held by thread {printed['holder']}", text)
        self.assertIn("Call nanosleep without the lock", text)

    def test_the_summary_of_record_names_them(self):
        done = self.run_command("record", "-o", "t.json", "--waits", "--", TARGET, "contended", "5")
        text = done.err.decode()
        self.assertIn("locks, by waiting time", text)
        self.assertRegex(text, r"the_lock \(0x[0-9a-f]+\) +5 .*, in nanosleep")

    def test_a_trace_without_waits(self):
        self.run_command("record", "-q", "-o", "t.json", "--", sys.executable, "-c", "pass")
        done = self.run_command("analyze", "--only", "locks", "t.json")
        self.assertIn(b"record with ckineto record --waits", done.out)


if __name__ == "__main__":
    main()
