"""Whatever dies, what was recorded up to then is there."""

import os

from command import STATIC_TARGET, TARGET, CommandTest, gone, main, until


class ProgramDies(CommandTest):
    def test_every_event_before_the_end_is_in_the_trace(self):
        for how, status in ((["exit", "0"], 0), (["_exit", "3"], 3), (["abort"], 134),
                            (["kill", "9"], 137), (["segv"], 139)):
            done = self.record(TARGET, "ranges", "1000", *how)
            self.assertEqual(done.returncode, status, done.err)
            self.assert_recorded(1000)

    def test_many_threads_too(self):
        done = self.record(TARGET, "threads", "8", "500", "kill", "9")
        self.assertEqual(done.returncode, 137)
        self.assertEqual(sorted(self.numbers()), sorted(list(range(500)) * 8))
        self.assertEqual(self.lost(), 0)

    def test_more_than_the_buffer_holds(self):
        done = self.record(TARGET, "ranges", "200000", "kill", "9", options=["-b", "4"])
        self.assertEqual(done.returncode, 137)
        numbers = self.numbers()
        self.assertEqual(len(self.slices()) + self.lost(), 400000)
        self.assertEqual(len(set(numbers)), len(numbers))


class Children(CommandTest):
    def test_forked_children_are_recorded(self):
        self.assertEqual(self.record(TARGET, "ranges", "10", "fork", "20").returncode, 0)
        self.assertEqual(sorted(self.numbers()), sorted([*range(10), *range(20)]))
        self.assertEqual(len({e["pid"] for e in self.slices()}), 2)

    def test_a_child_that_cannot_look_at_itself_is_not_taken_for_dead(self):
        self.record(TARGET, "ranges", "1", "files", "0", "pause", "1000", "fork", "500")
        self.assertEqual(sorted(self.numbers()), sorted([0, *range(500)]))
        self.assertEqual(self.lost(), 0)

    def test_executed_children_are_recorded(self):
        self.record("sh", "-c", f"'{TARGET}' ranges 3; '{TARGET}' ranges 4; true")
        self.assertEqual(sorted(self.numbers()), sorted([*range(3), *range(4)]))

    def test_the_recorder_waits_for_the_program_and_not_for_what_it_leaves(self):
        done = self.record(TARGET, "ranges", "2", "orphan", "5", stdout=None)
        self.assertEqual(done.returncode, 0)
        self.assert_recorded(2)

    def test_a_process_that_cannot_be_entered_is_named(self):
        if not STATIC_TARGET or not os.path.exists(STATIC_TARGET):
            self.skipTest("no statically linked program")
        done = self.record("sh", "-c", f"'{STATIC_TARGET}'; true")
        self.assertIn(b"names the processes", done.err)
        lines = [l for l in self.ledger() if l["reason"].startswith("statically linked")]
        self.assertEqual([l["count"] for l in lines], [1])
        self.assertIn("cli_static_targ", lines[0]["detail"])

    def test_processes_in_another_pid_namespace_are_named_and_not_recorded(self):
        if self.record(TARGET, "ranges", "10", "elsewhere", "20").returncode == 77:
            self.skipTest("no pid namespaces are allowed here")
        self.assertEqual(sorted(self.numbers()), list(range(10)))
        self.assertEqual(len({e["pid"] for e in self.slices()}), 1)
        lines = [l for l in self.ledger() if l["reason"].startswith("in another pid")]
        self.assertEqual([l["count"] for l in lines], [1])


class RecorderDies(CommandTest):
    def kill_recorder(self, *options):
        process = self.start("record", "-o", "t.json", *options, "--", TARGET, "ranges", "3000",
                             "print", "ready", "wait", "go", "ranges", "10", "print", "done")
        self.assertEqual(process.stdout.readline(), b"ready\n")
        pool, = self.pools(process.pid)
        process.kill()
        self.assertTrue(until(lambda: gone(process.pid)))
        return process, pool

    def let_program_end(self, process):
        with open(self.path("go"), "w"):
            pass
        self.assertEqual(process.stdout.read(), b"done\n")
        process.stdout.close()
        process.stderr.close()
        process.wait()

    def test_the_program_goes_on_and_recover_finds_everything(self):
        process, pool = self.kill_recorder()
        self.let_program_end(process)
        listed = self.run_command("recover")
        self.assertIn(pool.encode(), listed.out)
        done = self.run_command("recover", "--remove", pool)
        self.assertEqual(done.returncode, 0, done.err)
        self.assertEqual(sorted(self.numbers()), sorted([*range(3000), *range(10)]))
        self.assertEqual(self.lost(), 0)
        self.assertFalse(os.path.exists(pool))
        cost = self.load()["ckineto_self_cost"]
        self.assertEqual(cost["records"]["ranges"], len(self.slices()))
        self.assertGreater(cost["in_program_estimated_ns"], 0)
        for key in ("percent", "program_cpu_ns", "recorder_cpu_ns"):
            self.assertIsNone(cost[key], "no process is left that knows")

    def test_recovery_works_from_the_spool_and_while_the_program_runs(self):
        process, pool = self.kill_recorder("-b", "1")
        spool, = [n for n in os.listdir(self.directory) if "ckspool" in n]
        done = self.run_command("recover", "-o", "r.json", spool)
        self.assertEqual(done.returncode, 0, done.err)
        self.assertEqual(sorted(self.numbers("r.json")), list(range(3000)))
        self.let_program_end(process)
        done = self.run_command("recover", "-o", "r.json", "--remove", spool)
        self.assertEqual(sorted(self.numbers("r.json")), sorted([*range(3000), *range(10)]))

    def test_the_spool_alone_gives_what_was_copied_out(self):
        process, pool = self.kill_recorder()
        self.let_program_end(process)
        os.unlink(pool)
        spool, = [n for n in os.listdir(self.directory) if "ckspool" in n]
        done = self.run_command("recover", "-o", "r.json", "--remove", spool)
        self.assertEqual(done.returncode, 0, done.err)
        self.assertTrue(set(self.numbers("r.json")) <= set(range(3000)))

    def test_a_living_recording_is_left_alone(self):
        process = self.start("record", "-q", "-o", "t.json", "--", TARGET, "ranges", "30", "print",
                             "ready", "wait", "go")
        self.assertEqual(process.stdout.readline(), b"ready\n")
        pool, = self.pools(process.pid)
        refused = self.run_command("recover", "-o", "r.json", pool)
        self.assertEqual(refused.returncode, 2)
        self.assertIn(str(process.pid).encode(), refused.err)
        self.assertFalse(os.path.exists(self.path("r.json")))
        forced = self.run_command("recover", "--force", "--remove", "-o", "r.json", pool)
        self.assertEqual(forced.returncode, 0, forced.err)
        self.assert_recorded(30, "r.json")
        self.let_go(process)
        self.assert_recorded(30)

    def let_go(self, process):
        with open(self.path("go"), "w"):
            pass
        process.communicate(timeout=200)
        self.assertEqual(process.returncode, 0)


class Hostile(CommandTest):
    def test_recover_refuses_what_is_not_a_recording(self):
        cases = {"empty": b"", "text": b"hello\n" * 1000, "zeros": bytes(100000),
                 "pool": b"CKPOOL1\0" + bytes(90000), "spool": b"CKSPOOL1" + bytes(90000)}
        for name, data in cases.items():
            with open(self.path(name), "wb") as f:
                f.write(data)
            done = self.run_command("recover", "-o", "r.json", name)
            self.assertEqual(done.returncode, 2, name)
            self.assertIn(name.encode(), done.err)
        with open(self.path("newer"), "wb") as f:
            f.write(b"KCSPOOL1" + b"\xee" * 8 + bytes(90000))
        done = self.run_command("recover", "-o", "r.json", "newer")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"another version of ckineto", done.err)
        os.mkfifo(self.path("fifo"))
        os.symlink("pool", self.path("link"))
        for name in ("fifo", "link", ".", "absent"):
            self.assertEqual(self.run_command("recover", "-o", "r.json", name).returncode, 2, name)


if __name__ == "__main__":
    main()
