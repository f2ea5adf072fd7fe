"""Disks that are full, places where nothing may be written, readers that went away."""

import os
import shutil
import subprocess
import unittest

from command import COMMAND, TARGET, CommandTest, main

NOBODY = 65534


class Output(CommandTest):
    def test_a_bad_place_is_reported_before_the_program_runs(self):
        os.mkdir(self.path("d.json"))
        with open(self.path("file"), "w"):
            pass
        for name in ("d.json", "absent/t.txt", "file/t.json", "file/below/t.json", "t.txt", "", "."):
            done = self.run_command("record", "-o", name, "--", "touch", "ran")
            self.assertEqual(done.returncode, 125, name)
            self.assertTrue(done.err)
            self.assertFalse(os.path.exists(self.path("ran")), name)
        self.assertFalse(os.path.exists(self.path("absent")))

    def test_missing_directories_are_created_with_and_without_a_rank(self):
        for name, directory in (("run/t.json", "run"), ("deep/er/t.json", "deep/er"), ("of{rank}/rank{rank}.json", "of3")):
            done = self.run_command("record", "--no-summary", "-o", name, "--", "true", env={**os.environ, "RANK": "3"})
            self.assertEqual(done.returncode, 0, done.err)
            self.assertIn(f"created the directory '{directory}'\n".encode(), done.err)
            self.assertTrue(os.path.isfile(self.path(name.replace("{rank}", "3"))))
            again = self.run_command("record", "-q", "-o", name, "--", "true", env={**os.environ, "RANK": "3"})
            self.assertEqual((again.returncode, again.err), (0, b""))

    def test_a_place_without_permission_is_reported_before_the_program_runs(self):
        os.chmod(self.directory, 0o755)
        os.mkdir(self.path("closed"), 0o555)
        as_user = {"user": NOBODY} if os.geteuid() == 0 else {}
        done = self.run_command("record", "-o", "closed/t.json", "--", "touch", "closed/ran", **as_user)
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"closed", done.err)
        self.assertIn(b"ermission", done.err)

    def in_a_directory_for_all(self, name):
        os.makedirs(self.path("all"), exist_ok=True)
        os.chmod(self.path("all"), 0o1777)
        os.chmod(self.directory, 0o755)
        return self.path("all/" + name)

    @unittest.skipIf(os.geteuid(), "only root can act as another user")
    def test_what_others_put_into_a_directory_for_all_leads_nowhere(self):
        self.record(TARGET, "ranges", "5", options=["-q"])
        link, pipe = self.in_a_directory_for_all("link.json"), self.in_a_directory_for_all("pipe.json")
        with open(self.path("mine.json"), "w") as f:
            f.write("mine")
        os.symlink(self.path("mine.json"), link)
        os.mkfifo(pipe, 0o666)
        for path in (link, pipe):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
            done = self.run_command("convert", "t.json", "-o", path)
            self.assertEqual(done.returncode, 1, path)
            self.assertIn(path.encode(), done.err)
        with open(self.path("mine.json")) as f:
            self.assertEqual(f.read(), "mine")
        os.lchown(link, 0, 0)  # one's own is followed, as ever
        self.assertEqual(self.run_command("convert", "t.json", "-o", link).returncode, 0)
        self.assertTrue(os.path.islink(link) and self.load("mine.json"))

    @unittest.skipIf(os.geteuid(), "only root can act as another user")
    def test_a_file_of_another_user_does_not_open_what_replaces_it(self):
        for mode, owner, wanted in ((0o666, NOBODY, 0o644), (0o400, NOBODY, 0o600), (0o666, 0, 0o666)):
            path = self.in_a_directory_for_all("t.json")
            with open(path, "w"):
                pass
            os.chown(path, owner, owner)
            os.chmod(path, mode)
            done = self.run_command("record", "-q", "-o", path, "--", TARGET, "ranges", "5", umask=0o022)
            self.assertEqual(done.returncode, 0, done.err)
            self.assertEqual(os.stat(path).st_mode & 0o777, wanted)
            self.assertEqual(os.stat(path).st_uid, 0)

    def test_no_trace_is_overwritten_by_what_is_made_of_it(self):
        self.record(TARGET, "ranges", "5", options=["-q"])
        with open(self.path("t.json"), "rb") as f:
            before = f.read()
        shutil.copy(self.path("t.json"), self.path("u.json"))
        for words in (["analyze", "--json=t.json", "u.json"], ["analyze", "u.json", "--json=u.json"],
                      ["info", "--json=t.json", "t.json"], ["diff", "--json=t.json", "t.json", "u.json"],
                      ["verify", "--json=u.json", "t.json"],
                      ["report", "t.json", "-o", "t.json"], ["report", "t.json", "-o", "u.json"],
                      ["table", "t.json", "-o", "u.json"], ["query", "t.json", "SELECT 1", "-o", "t.json"],
                      ["scrub", "t.json", "-o", "t.json"], ["slice", "t.json", "-o", "t.json"],
                      ["convert", "t.json", "-o", "t.json"], ["export", "t.json", "--jsonl", "./t.json"]):
            done = self.run_command(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(b"would overwrite" if b"would overwrite" in done.err else b"would be overwritten", done.err)
            for name in ("t.json", "u.json"):
                with open(self.path(name), "rb") as f:
                    self.assertEqual(f.read(), before, words)

    def check_rescue(self, name):
        done = self.run_command("record", "-o", name, "--", TARGET, "ranges", "500", "exit", "3")
        self.assertEqual(done.returncode, 125, done.err)
        self.assertIn(b"No space left", done.err)
        self.assertIn(b"status 3", done.err)
        pool, = self.pools(done.pid)
        self.assertIn(b"ckineto recover -o FILE.json --remove " + pool.encode(), done.err)
        saved = self.run_command("recover", "-o", "r.json", "--remove", pool)
        self.assertEqual(saved.returncode, 0, saved.err)
        self.assert_recorded(500, "r.json")

    def test_a_full_device_loses_nothing(self):
        os.symlink("/dev/full", self.path("t.json"))
        self.check_rescue("t.json")

    def mount_small(self, kilobytes):
        os.mkdir(self.path("small"))
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs",
                               self.path("small")], capture_output=True)
        if made.returncode:
            self.skipTest("a small file system cannot be mounted here")

    def tearDown(self):
        subprocess.run(["umount", self.path("small")], capture_output=True)
        super().tearDown()

    def test_a_full_disk_keeps_the_old_trace(self):
        self.mount_small(128)
        with open(self.path("small/t.json"), "w") as f:
            f.write("the old one")
        self.check_rescue("small/t.json")
        with open(self.path("small/t.json")) as f:
            self.assertEqual(f.read(), "the old one")
        self.assertEqual(os.listdir(self.path("small")), ["t.json"])

    def test_what_no_longer_fits_is_counted_and_the_program_goes_on(self):
        self.mount_small(2048)
        rounds, pairs = 12, 20000
        slowly = ["ranges", str(pairs), "sleep", "40"] * rounds
        done = self.run_command("record", "-b", "2", "-o", "small/t.json", "--", TARGET, *slowly,
                                "print", "done")
        self.assertEqual((done.returncode, done.out), (125, b"done\n"))
        pool, = self.pools(done.pid)
        self.run_command("recover", "-o", "r.json", "--remove", pool)
        self.assertEqual(len(self.slices("r.json")) + self.lost("r.json"), 2 * pairs * rounds)
        self.assertGreater(self.lost("r.json"), 0)
        self.assertIn("copying out failed", [l["reason"] for l in self.ledger("r.json")])

    def test_a_file_size_limit_stops_the_recording_and_not_the_program(self):
        command = ["sh", "-c", 'ulimit -f 20; exec "$@"', "sh", COMMAND, "record", "-o", "t.json",
                   "--", TARGET, "ranges", "5", "print", "done", "exit", "7"]
        done = subprocess.run(command, cwd=self.directory, capture_output=True)
        self.assertEqual((done.returncode, done.stdout), (7, b"done\n"))
        self.assertIn(b"File too large", done.stderr)
        self.assertIn(b"the program runs unrecorded", done.stderr)


class Retention(CommandTest):
    PAIRS = 100000

    def check(self, policy):
        done = self.record(TARGET, "ranges", str(self.PAIRS),
                           options=["-p", policy, "-k", "1", "-b", "8"])
        self.assertEqual(done.returncode, 0, done.err)
        self.assertEqual(len(self.slices()) + self.lost(), 2 * self.PAIRS, self.ledger())
        self.assertLess(len(self.slices()), 60000)
        return self.numbers()

    def test_oldest_keeps_the_beginning(self):
        numbers = self.check("oldest")
        self.assertEqual(sorted(numbers), list(range(len(numbers))))

    def test_ring_keeps_the_end(self):
        numbers = self.check("ring")
        self.assertEqual(sorted(numbers), list(range(self.PAIRS - len(numbers), self.PAIRS)))

    def test_stream_keeps_everything(self):
        self.record(TARGET, "ranges", str(self.PAIRS), options=["-b", "64"])
        self.assertEqual(len(self.slices()) + self.lost(), 2 * self.PAIRS)


class Readers(CommandTest):
    def setUp(self):
        super().setUp()
        self.record(TARGET, "ranges", "10")

    def test_a_reader_that_leaves_early_is_not_an_error(self):
        for options in ([], ["--json"]):
            command = f"'{COMMAND}' info {' '.join(options)} t.json | head -c 1"
            done = subprocess.run(["bash", "-c", command], cwd=self.directory, capture_output=True)
            self.assertEqual(done.stderr, b"")
            ignoring = f"trap '' PIPE; '{COMMAND}' info {' '.join(options)} t.json | true"
            done = subprocess.run(["bash", "-c", ignoring], cwd=self.directory, capture_output=True)
            self.assertNotIn(b"rror", done.stderr)

    def test_closed_streams_are_reported_and_harm_nothing(self):
        before = self.load()
        for words in ("--version", "--help", "info t.json", "info --json t.json", "verify t.json", "table t.json",
                      "doctor --json", "convert t.json -o - --to jsonl", "nothing", "info absent.json"):
            for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
                done = subprocess.run(["sh", "-c", f"'{COMMAND}' {words} {closed}"], cwd=self.directory,
                                      capture_output=True, timeout=200)
                self.assertIn(done.returncode, (0, 1, 2), (words, closed))
                if closed == ">&-":
                    self.assertNotEqual(done.returncode, 0, words)
                    self.assertTrue(done.stderr, words)
        self.assertEqual(self.load(), before)

    def test_no_file_of_ours_takes_the_place_of_a_closed_stream(self):
        done = subprocess.run(["sh", "-c", f"exec '{COMMAND}' view t.json >&-"], cwd=self.directory,
                              capture_output=True, timeout=200)  # a socket was where it then printed to
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"Bad file descriptor", done.stderr)

    def test_what_is_closed_is_not_written_into_an_output(self):
        for closed in ("<&- >&- 2>&-", ">&- 2>&-", "<&-"):
            done = subprocess.run(["sh", "-c", f"'{COMMAND}' convert t.json -o u.json {closed}"], cwd=self.directory)
            self.assertEqual(done.returncode, 0)
            self.assertEqual(len(self.slices("u.json")), 20)

    def test_a_full_standard_output_is_an_error(self):
        for verb in (["info", "t.json"], ["info", "--json", "t.json"], ["--help"], ["doctor"],
                     ["doctor", "--json"], ["ps", "--json"], ["analyze", "--json", "t.json"]):
            with open("/dev/full", "w") as full:
                done = self.run_command(*verb, stdout=full)
            self.assertEqual(done.returncode, 1, verb)
            self.assertIn(b"No space left", done.err)

    def test_a_full_output_is_named_as_it_was_given(self):
        for verb in (["convert"], ["slice", "--top", "3"], ["scrub"], ["repair"], ["report"]):
            done = self.run_command(*verb, "t.json", "-o", "/dev/full")
            self.assertEqual(done.returncode, 1, verb)
            self.assertIn(b"'/dev/full': No space left", done.err)

    def test_what_is_not_a_trace_is_reported(self):
        with open(self.path("bad.json"), "w") as f:
            f.write('{"trace": [{]}')
        os.mkdir(self.path("empty"))
        for name in ("bad.json", "absent.json", "empty"):
            done = self.run_command("info", name)
            self.assertEqual((done.returncode, done.out), (2, b""), name)
            self.assertIn(name.encode(), done.err)


if __name__ == "__main__":
    main()
