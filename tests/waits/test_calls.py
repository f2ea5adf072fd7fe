"""The recorded calls: as many, as long, with the arguments that the program itself knows."""

import os
import shutil
import subprocess
import sys
import tempfile

from waits_test import COMMAND, HOOK, TARGET, WaitsTest, main, program, run_plain


class Calls(WaitsTest):
    def test_a_contended_mutex_and_its_holder(self):
        for waits in ("", "=0"):
            with self.subTest(waits):
                printed = self.record(TARGET, "contended", "10", waits=waits)
                mine = [e for e in self.calls() if e["name"] == "pthread_mutex_lock"
                        and e["args"]["address"] == int(printed["address"])]
                self.assertEqual(len(mine), 10)
                for e in mine:
                    self.assertEqual(e["args"]["holder"], int(printed["holder"]))
                    self.assertEqual(e["tid"], int(printed["waiter"]))
                    self.assertEqual(e["args"]["error"], 0)
                    self.assertGreaterEqual(e["dur"], 2000)
                total_us = sum(e["dur"] for e in mine)
                self.assertLessEqual(total_us, int(printed["waited_ns"]) / 1000)
                sleeps = [e for e in self.calls() if e["name"] == "nanosleep"]
                self.assertEqual(len(sleeps), 10)
                self.assertTrue(all(e["dur"] >= 2000 and e["tid"] == int(printed["holder"]) for e in sleeps))
                self.assertEqual(self.counts()["pthread_join"] + self.short_calls().get("pthread_join", [0])[0], 1)

    def test_holders_of_all_kinds_of_locks(self):
        printed = self.record(TARGET, "holders")
        holder = int(printed.pop("holder"))
        self.assertEqual(len(printed), 9)
        for kind, address in printed.items():
            mine = [e for e in self.calls() if e["args"].get("address") == int(address)]
            self.assertEqual([e["args"]["holder"] for e in mine if e["dur"] >= 2000], [holder], (kind, mine))

    def test_futexes_of_programs_that_call_the_kernel(self):
        printed = self.record(TARGET, "futex", "20")
        mine = [e for e in self.calls() if e["name"] == "futex"]
        self.assertEqual(len(mine), 20)
        self.assertTrue(all(e["dur"] >= 1000 for e in mine))
        self.assertEqual({(e["args"]["address"], e["args"]["error"]) for e in mine}, {(int(printed["address"]), 110)})

    def test_a_program_that_confines_itself(self):
        for way in ("prctl", "syscall"):
            done = self.run_command("record", "-q", "-o", "t.json", "--waits=0", "--", program("waits_confined"), way)
            if done.returncode == 77:
                continue
            self.assertEqual((done.returncode, done.out), (0, b"line 1\n" * 10), done.err)
            self.assertEqual([e["args"]["file"] for e in self.calls() if e["name"] == "write"], [""] * 10)

    def test_counts_of_all_functions(self):
        with tempfile.TemporaryDirectory() as folder:
            printed = self.record(TARGET, "counts", folder, "20")
            self.assert_counts(printed)
            calls = self.calls()
            for function in ("write", "pwrite", "writev", "pread", "read", "readv"):
                mine = [e["args"] for e in calls if e["name"] == function]
                self.assertEqual(sum(a["bytes"] for a in mine), int(printed[f"bytes {function}"]))
                self.assertEqual({a["file"] for a in mine}, {os.path.join(folder, "counted")})
            for function in ("open", "fsync", "fdatasync"):
                self.assertEqual({e["args"]["file"] for e in calls if e["name"] == function},
                                 {os.path.join(folder, "counted")})
        for function in ("usleep", "nanosleep", "clock_nanosleep", "thrd_sleep", "poll", "ppoll", "select", "pselect",
                         "epoll_wait", "epoll_pwait"):
            self.assertTrue(all(e["dur"] >= 990 for e in calls if e["name"] == function), function)
        self.assertEqual(self.load()["ckineto_waits_threshold_us"], 0)
        self.assertEqual(self.short_calls(), {})

    def test_short_calls_are_counted(self):
        with tempfile.TemporaryDirectory() as folder:
            printed = self.record(TARGET, "byte_by_byte", os.path.join(folder, "f"), "3000", waits="=100000")
        have, short = self.counts(), self.short_calls()
        self.assertEqual(have["write"] + short["write"][0], int(printed["write"]))
        self.assertEqual(sum(e["args"]["bytes"] for e in self.calls() if e["name"] == "write") + short["write"][2], 3000)
        self.assertGreater(short["write"][0], 1000)
        self.assertGreater(short["write"][1], 0)

    def test_sockets_have_their_peers(self):
        with tempfile.TemporaryDirectory() as folder:
            printed = self.record(TARGET, "sockets", folder)
        self.assert_counts(printed, ("connect", "accept", "send", "recv", "close", "pthread_join"))
        connects = {e["args"]["file"] for e in self.calls() if e["name"] == "connect"}
        self.assertEqual(connects, {f"tcp 127.0.0.1:{printed['port']}", f"unix {printed['path']}"})
        sent = [e["args"] for e in self.calls() if e["name"] == "send"]
        self.assertEqual([a["bytes"] for a in sent], [64] * 4)
        self.assertIn(f"tcp 127.0.0.1:{printed['port']}", {a["file"] for a in sent})

    def test_children_record_their_own(self):
        printed = self.record(TARGET, "processes")
        self.assert_counts(printed, ("waitpid", "nanosleep"))
        waits = [e for e in self.calls() if e["name"] == "waitpid"]
        sleeps = [e for e in self.calls() if e["name"] == "nanosleep"]
        self.assertEqual([e["args"]["pid"] for e in waits], [e["pid"] for e in sleeps])
        self.assertTrue(all(e["dur"] >= 3000 for e in sleeps))  # the parent may come later than the child ends

    def test_short_calls_of_a_child_are_its_own(self):
        code = ("import os\nfor i in range(50): os.write(1, b'')\npid = os.fork()\n"
                "for i in range(7): os.write(1, b'')\nif pid: os.waitpid(pid, 0)\n")
        self.record(sys.executable, "-c", code, waits="=1000000000")
        self.assertEqual(self.short_calls()["write"][0] + self.counts()["write"], 50 + 7 + 7)

    def test_handlers_record_their_calls(self):
        printed = self.record(TARGET, "signals", "30")
        self.assert_counts(printed, ("ppoll", "read", "write"))

    def test_cpp(self):
        if not os.path.exists(program("waits_cpp")):
            self.skipTest("no C++ compiler")
        printed = self.record(program("waits_cpp"))
        self.assert_counts(printed)
        names = set(self.counts())
        self.assertTrue(names & {"nanosleep", "clock_nanosleep"}, names)

    def test_rust(self):
        """Its locks and conditions are futexes. The other thread needs the lock, so it notifies after the wait began."""
        if not shutil.which("rustc"):
            self.skipTest("no Rust compiler")
        with open(self.path("w.rs"), "w", encoding="utf-8") as f:
            f.write("""use std::{sync::{Arc, Condvar, Mutex}, thread, time::Duration};
fn main() {
    for i in 0..5 {
        let pair = Arc::new((Mutex::new(false), Condvar::new()));
        let held = pair.0.lock().unwrap();
        let other = pair.clone();
        let t = thread::spawn(move || {
            thread::sleep(Duration::from_millis(2));
            *other.0.lock().unwrap() = true;
            other.1.notify_one();
        });
        let done = pair.1.wait_while(held, |done| !*done).unwrap();
        assert!(*done, "{}", i);
        drop(done);
        t.join().unwrap();
    }
    println!("pthread_join 5\\nclock_nanosleep 5");
}
""")
        subprocess.run(["rustc", "-o", self.path("w"), self.path("w.rs")], check=True, timeout=100)
        printed = self.record(self.path("w"))
        self.assert_counts(printed, ("pthread_join",))
        self.assertEqual(sum(e["dur"] >= 2000 for e in self.calls() if "nanosleep" in e["name"]), 5)
        self.assertGreaterEqual(self.counts()["futex"], 5)

    def test_a_program_is_not_recorded_without_the_option(self):
        done = self.run_command("record", "-q", "-o", "t.json", "--", TARGET, "contended", "1")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(self.calls(), [])

    def test_the_kind_can_be_chosen(self):
        printed = self.record(TARGET, "contended", "2", options=("--kinds", "kernel"))
        self.assert_counts(printed, ("nanosleep",))

    def test_a_static_program(self):
        done = self.run_command("record", "-q", "-o", "t.json", "--waits=0", "--", program("waits_static"),
                                "contended", "1")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(self.calls(), [])
        self.assertIn("processes not recorded", [line["source"] for line in self.ledger()])

    def test_a_program_that_records_itself(self):
        example = os.path.join(os.path.dirname(COMMAND), "example_self_record")
        if not os.path.exists(example):
            self.skipTest("the example is not built")
        done = run_plain("env", "-C", self.directory, example, LD_PRELOAD=HOOK, CKINETO_WAITS_US="0")
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_memory_and_waits_at_once(self):
        printed = self.record(TARGET, "contended", "3", options=("--memory=1",))
        self.assert_counts(printed, ("nanosleep", "pthread_join"))
        self.assertIn("[memory]", {e["name"] for e in self.load()["traceEvents"]})

    def test_wrong_thresholds(self):
        for text in ("x", "-1", "1.5", "20us", "99999999999"):
            done = self.run_command("record", f"--waits={text}", "--", "true")
            self.assertEqual(done.returncode, 125, text)
            self.assertIn(b"--waits is a number of microseconds", done.err)

    def test_a_bad_setting_is_the_default(self):
        for text in ("", "abc", "-5", "20us"):
            done = run_plain(TARGET, "contended", "1", LD_PRELOAD=HOOK, CKINETO_WAITS_US=text)
            self.assertEqual(done.returncode, 0, text)

    def test_the_hook_is_named_when_it_is_not_there(self):
        done = self.run_command("record", "--waits", "--", "true",
                                env={**os.environ, "CKINETO_PLUGIN_DIR": self.directory})
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"libckineto-waits.so was not found", done.err)


if __name__ == "__main__":
    main()
