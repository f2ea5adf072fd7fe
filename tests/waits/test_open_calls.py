"""Calls that do not end: they are in the trace, however program and recorder end."""

import glob
import os
import signal
import subprocess

from waits_test import WaitsTest, main, program

OPEN = program("waits_open")
KINDS = {"pthread_cond_wait": "mutex", "sem_wait": "address", "read": "fd", "poll": "descriptors", "sleep": None,
         "pthread_join": None}


def numbers(out):
    return {key: int(value) for key, value in (line.rsplit(" ", 1) for line in out.decode().splitlines())}


class OpenCalls(WaitsTest):
    def run_open(self, *arguments, waits="", name="t.json"):
        done = self.run_command("record", "-q", "-o", name, f"--waits{waits}", "--cpu=off", "--", OPEN, *arguments)
        self.assertEqual(self.lost(name), 0)
        return numbers(done.out)

    def open_calls(self, name="t.json"):
        return [e for e in self.calls(name) if e["args"].get("finished") is False]

    def assert_circle(self, printed, calls):
        """Each thread waits for the lock that the next one holds, for as long as the program says and longer."""
        count = printed["threads"]
        tids = [printed[f"tid{n}"] for n in range(count)]
        by_tid = {e["tid"]: e for e in calls if e["name"] == "pthread_mutex_lock"}
        self.assertEqual(len([e for e in calls if e["name"] == "pthread_mutex_lock"]), count)
        self.assertEqual(sorted(by_tid), sorted(tids))
        for n, tid in enumerate(tids):
            self.assertEqual(by_tid[tid]["args"]["holder"], tids[(n + 1) % count])
            self.assertGreaterEqual(by_tid[tid]["dur"] * 1000, printed["open_ns"])
        self.assertEqual(len({e["args"]["address"] for e in by_tid.values()}), count)

    def finding(self, name="t.json"):
        done = self.run_command("analyze", "--findings", name)
        return " ".join(done.out.decode().split())

    def test_a_circle_however_the_program_ends(self):
        for threads in ("1", "2", "5"):
            for how in ("kill", "exit", "abort"):
                with self.subTest(threads=threads, how=how):
                    printed = self.run_open("circle", threads, how)
                    self.assert_circle(printed, self.open_calls())
                    text = self.finding()
                    self.assertIn(f"Deadlock of {threads} thread", text)
                    self.assertIn(f"held by thread {printed['tid0' if threads == '1' else 'tid1']}", text)

    def test_kinds_of_calls(self):
        printed = self.run_open("kinds", "kill")
        calls = {e["tid"]: e for e in self.open_calls()}
        names = [calls[printed[f"tid{n}"]]["name"] for n in range(printed["threads"])]
        self.assertEqual(names, list(KINDS))
        for n, argument in enumerate(KINDS.values()):
            self.assertTrue(argument is None or argument in calls[printed[f"tid{n}"]]["args"])
        self.assertNotIn("Deadlock", self.finding())

    def test_a_handler_that_waits(self):
        printed = self.run_open("handler", "kill")
        call, = [e for e in self.open_calls() if e["name"] == "pthread_mutex_lock"]
        self.assertEqual(call["tid"], printed["tid0"])
        inner, = [e for e in self.calls() if e["name"] == "nanosleep"]
        self.assertNotIn("finished", inner["args"])

    def test_a_call_that_was_left_by_a_jump(self):
        self.run_open("jump", "kill")
        self.assertEqual([e["name"] for e in self.open_calls()], [])

    def test_the_threshold(self):
        self.run_open("circle", "2", "kill", waits="=100000000")
        self.assertEqual(self.open_calls(), [])

    def test_nothing_is_open(self):
        for how in ("kill", "exit", "abort"):
            self.run_open("short", how, waits="=0")
            self.assertEqual([e["name"] for e in self.open_calls()], [])

    def start_hanging(self, *options):
        process = self.start("record", "-q", "-o", "t.json", "--waits", "--cpu=off", *options, "--", OPEN, "circle",
                             "2", "hang", stdin=subprocess.PIPE)
        out = b""
        while b"ready" not in out:
            line = process.stdout.readline()
            self.assertTrue(line, out)
            out += line
        return process, numbers(out)

    def test_a_dump_of_a_ring(self):
        process, printed = self.start_hanging("--ring", "60")
        done = self.run_command("trigger", "--dump", "--pid", str(process.pid), "--wait", "-o", self.path("dump.json"))
        self.assertEqual(done.returncode, 0, done.err)
        process.communicate(timeout=100)  # the end of its input ends the program
        self.assertEqual(process.returncode, 0)
        dump, = glob.glob(self.path("dump*.json"))
        self.assert_circle(printed, self.open_calls(dump))

    def test_a_recorder_that_was_killed(self):
        process, printed = self.start_hanging()
        process.kill()
        os.kill(printed["tid0"], signal.SIGKILL)
        process.communicate(timeout=100)
        pool, = self.pools(process.pid)
        done = self.run_command("recover", "--remove", "-o", "r.json", pool)
        self.assertEqual(done.returncode, 0, done.err)
        self.assert_circle({**printed, "open_ns": 0}, self.open_calls("r.json"))


if __name__ == "__main__":
    main()
