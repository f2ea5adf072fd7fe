"""Programs that do not record: named with the true reason, and an incomplete trace never looks complete."""

import os
import shutil
import signal
import subprocess

from command import STATIC_TARGET, TARGET, CommandTest, main

NOBODY = "65534"
LIVE = ["ranges", "20", "sleep", "1200"]  # long enough to be looked at more than once


class Unrecorded(CommandTest):
    def lines(self):
        return [l for l in self.ledger() if l["source"] == "processes not recorded"
                and not l["reason"].startswith("CPU time")]

    def record_and_find(self, reason, *command, ranges=0, loss=True, options=()):
        """Record; the ledger has one line, with this reason, of one process, and nothing looks complete."""
        done = self.record(*command, options=options)
        if done.returncode == 77:
            self.skipTest("not allowed here")
        self.assertEqual(done.returncode, 0, done.err)
        self.assertNotIn(b"WARNING", done.err, "the program's stderr is its own")
        self.assertEqual(len(self.slices()), 2 * ranges)
        found = [(l["reason"].split(":")[0], l["count"], bool(l.get("loss", False))) for l in self.lines()]
        self.assertEqual([(r, c) for r, c, _ in found], [(reason, 1)])
        info = self.run_command("info", "t.json").out
        self.assertNotIn(b"nothing was lost", info)
        if loss:
            self.assertEqual(self.lost(), 1)
            self.assertIn(b"events of 1 process are missing", info)
            self.assertEqual(self.run_command("verify", "t.json").returncode, 1)

    def needs_root(self):
        if os.geteuid() != 0:
            self.skipTest("only root may do that")

    def as_nobody(self):
        """The program where every user can start it."""
        self.needs_root()
        os.chmod(self.directory, 0o755)
        self.allow(os.path.dirname(TARGET))
        return TARGET

    def allow(self, folder):
        done = subprocess.run(["setpriv", "--reuid", NOBODY, "--clear-groups", "test", "-x", TARGET], check=False)
        if done.returncode:
            self.skipTest(f"other users cannot reach {folder}")

    def test_it_gave_up_its_privileges_and_became_another_program(self):
        program = self.as_nobody()
        self.record_and_find("may not open the recording's buffer", program, "ranges", "20", "user", NOBODY,
                             "exec", program, *LIVE, ranges=20)

    def test_it_was_started_as_another_user(self):
        program = self.as_nobody()
        self.record_and_find("may not open the recording's buffer", "setpriv", "--reuid", NOBODY,
                             "--clear-groups", program, *LIVE)

    def test_its_address_space_is_limited(self):
        if os.environ.get("CKINETO_SANITIZED") == "1":
            self.skipTest("sanitizers need all of it")
        self.record_and_find("has no room for the recording's buffer", TARGET, "space", "60", "exec", TARGET, *LIVE,
                             options=["-b", "64"])

    def test_its_environment_was_dropped(self):
        self.record_and_find("was started without the recording's environment", "env", "-i", TARGET, *LIVE)
        self.record_and_find("was started without the recording's environment", "env", "-u", "CKINETO_SESSION",
                             TARGET, *LIVE)

    def test_its_root_directory_is_another_one(self):
        self.needs_root()
        jail = self.path("jail")
        shown = subprocess.run(["ldd", TARGET], capture_output=True, text=True, check=False).stdout
        files = [w for w in shown.split() if w.startswith("/")] + [TARGET]
        for file in files:
            os.makedirs(jail + os.path.dirname(file), exist_ok=True)
            shutil.copy(os.path.realpath(file), jail + file)
        environment = {**os.environ, "LD_LIBRARY_PATH": ":".join({os.path.dirname(f) for f in files})}
        os.environ.update(environment)
        self.addCleanup(os.environ.pop, "LD_LIBRARY_PATH")
        self.record_and_find("cannot see the recording's buffer", TARGET, "root", jail, "exec", TARGET, *LIVE)

    def test_an_attached_program_became_one_that_cannot_be_entered(self):
        if not STATIC_TARGET or not os.path.exists(STATIC_TARGET):
            self.skipTest("no statically linked program")
        self.record_and_find("statically linked", TARGET, "ranges", "3", "exec", STATIC_TARGET, ranges=3, loss=False)

    def test_a_library_of_another_layout_is_named_however_short_its_program_runs(self):
        script = f"echo ready; while ! test -e go; do sleep 0.01; done; exec '{TARGET}' ranges 3"
        process = self.start("record", "-o", "t.json", "--", "sh", "-c", script)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        with open(self.pools(process.pid)[0], "r+b") as pool:  # its layout is another one from here on
            pool.seek(8)
            pool.write(b"\xff")
        with open(self.path("go"), "w", encoding="utf-8"):
            pass
        self.assertEqual(process.communicate()[1].count(b"WARNING"), 0)
        line, = [l for l in self.lines() if "another version" in l["reason"]]
        self.assertEqual((line["count"], line["loss"]), (1, True))
        self.assertIn(os.path.basename(TARGET), line["detail"])

    def test_a_program_that_becomes_itself_is_recorded_twice(self):
        self.record(TARGET, "ranges", "3", "exec", TARGET, "ranges", "4")
        self.assertEqual(sorted(self.numbers()), sorted([*range(3), *range(4)]))
        self.assertEqual(self.lines(), [])
        self.assertEqual(self.lost(), 0)

    def test_a_fork_that_records_nothing_is_not_a_loss(self):
        self.record(TARGET, "ranges", "3", "fork", "0", "sleep", "300")
        self.assertEqual(self.lost(), 0)

    def test_the_output_of_a_program_that_cannot_attach_stays_the_same(self):
        done = self.record("sh", "-c", f"CKINETO_SESSION=/dev/shm/none.pool '{TARGET}' ranges 1 2>&1 | wc -c",
                           stdout=subprocess.PIPE)
        self.assertEqual(done.out.strip(), b"0")

    def test_a_daemon_that_outlives_the_recording_is_named(self):
        self.record(TARGET, "ranges", "2", "daemon", "5", "sleep", "500", stdout=None)
        self.assertEqual(len(self.slices()), 2 * 7)
        lines = [l for l in self.ledger() if l["reason"] == "still running when the recording ended"]
        self.assertEqual([l["count"] for l in lines], [1])
        os.kill(int(lines[0]["detail"].rpartition("(")[2].rstrip(")")), signal.SIGKILL)
        self.assertEqual(self.run_command("verify", "t.json").returncode, 1)


class Overwritten(CommandTest):
    def test_a_ring_that_is_too_small_counts_what_it_lost_of_the_time_that_was_asked_for(self):
        pairs = 400000
        done = self.run_command("record", "--ring", "600", "--ring-mb", "4", "-o", "t.json", "--",
                                TARGET, "ranges", str(pairs))
        self.assertEqual(done.returncode, 0, done.err)
        kept = len(self.slices())
        self.assertGreater(kept, 10000)
        self.assertEqual(kept + self.lost(), 2 * pairs)
        short, = [l for l in self.ledger() if l["reason"] == "shorter than asked for"]
        self.assertRegex(short["detail"], r"only the last .* of .* are whole: .* --ring-mb")
        self.assertIn(b"events are missing from this trace", self.run_command("info", "t.json").out)
        self.assertIn(b"more events are missing", done.err)
        self.assertEqual(self.run_command("verify", "t.json").returncode, 1)

    def test_what_is_older_than_the_ring_is_not_a_loss(self):
        self.run_command("record", "--ring", "0.3", "--ring-mb", "4", "-o", "t.json", "--",
                         TARGET, "ranges", "400000", "sleep", "2500", "ranges", "5")
        self.assertEqual(sorted(self.numbers()), list(range(5)))
        self.assertEqual(self.lost(), 0)


class Recover(CommandTest):
    def left_pool(self, output="t.json"):
        """The pool of a recorder that was killed, as a file of our own."""
        process = self.start("record", "-b", "1", "-o", output, "--", TARGET, "ranges", "7", "print", "ready",
                             "wait", "go")
        self.assertEqual(process.stdout.readline(), b"ready\n")
        pool, = self.pools(process.pid)
        process.kill()
        with open(self.path("go"), "w"):
            pass
        process.communicate()
        with open(pool, "rb") as file:
            content = file.read()
        spools = [n for n in os.listdir(self.directory) if "ckspool" in n]
        return pool, content, spools

    def test_no_file_that_only_the_recording_names_is_replaced(self):
        os.mkdir(self.path("home"))
        pool, _, _ = self.left_pool("home/config.json")
        for place in ("home/config.json", "config.json"):
            with open(self.path(place), "w", encoding="utf-8") as file:
                file.write("mine")
        done = self.run_command("recover", pool)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"-o FILE", done.err)
        os.unlink(self.path("config.json"))
        done = self.run_command("recover", "--remove", pool)
        self.assertEqual(done.returncode, 0, done.err)
        self.assert_recorded(7, "config.json")
        with open(self.path("home/config.json"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "mine")

    def test_a_pool_whose_header_was_overwritten_is_listed(self):
        pool, content, spools = self.left_pool()
        with open(pool, "r+b") as file:
            file.write(b"\xff" * 64)
        listed = self.run_command("recover").out.decode()
        self.assertIn(f"rm {pool}", listed)
        self.assertEqual("\nNext: " in listed, " program: " in listed, listed)
        self.assertEqual(self.run_command("recover", "-o", "r.json", pool).returncode, 2)
        os.unlink(pool)
        for name in spools:
            os.unlink(self.path(name))

    def test_what_the_recording_says_does_not_drive_the_terminal(self):
        pool, _, _ = self.left_pool("x\x1b[31m\u202ey.json")
        done = self.run_command("recover", "--remove", pool)
        self.assertEqual(done.returncode, 0, done.err)
        self.assertNotIn(b"\x1b", done.err)
        self.assertNotIn("\u202e".encode(), done.err)

    def test_a_program_that_writes_over_the_header_leaves_a_trace(self):
        done = self.record(TARGET, "ranges", "5", "scribble", "2000")
        self.assertEqual(done.returncode, 0, done.err)
        self.assertEqual(sorted(self.numbers()), list(range(5)))
        lines = [l for l in self.ledger() if "buffer's header" in l["reason"]]
        self.assertEqual([l["count"] for l in lines], [1])


main()
