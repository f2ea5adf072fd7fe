"""The program runs as if it were not recorded: status, streams, arguments, environment, signals."""

import os
import signal
import subprocess
import sys

from command import COMMAND, TARGET, CommandTest, main, until

PYTHON = sys.executable


class Status(CommandTest):
    def test_is_the_programs(self):
        for status in (0, 1, 3, 125, 255):
            self.assertEqual(self.record(TARGET, "exit", str(status)).returncode, status)

    def test_tells_of_signals_as_a_shell_does(self):
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1):
            done = self.record(TARGET, "kill", str(int(number)))
            self.assertEqual(done.returncode, 128 + number)
            self.assertIn(b"killed by signal", done.err)

    def test_is_127_when_the_program_is_not_found(self):
        for name in ("./no-such-program", "no-such-program-anywhere"):
            done = self.record(name)
            self.assertEqual(done.returncode, 127)
            self.assertIn(name.encode(), done.err)
            self.assertFalse(os.path.exists(self.path("t.json")))

    def test_is_126_when_the_program_cannot_be_run(self):
        with open(self.path("text"), "w") as f:
            f.write("no program")
        with open(self.path("script"), "w") as f:
            f.write("#!/no/such/interpreter\n")
        os.chmod(self.path("script"), 0o755)
        for name in ("./text", "/", "./script"):
            self.assertEqual(self.record(name).returncode, 126)

    def test_is_that_of_a_script_without_a_first_line(self):
        with open(self.path("script"), "w") as f:
            f.write("exit 9\n")
        os.chmod(self.path("script"), 0o755)
        self.assertEqual(self.record("./script").returncode, 9)


class Streams(CommandTest):
    EVERY_BYTE = bytes(range(256)) * 300 + b"no newline at the end"

    def test_stdin_and_stdout_pass_through_byte_for_byte(self):
        done = self.record("cat", data=self.EVERY_BYTE)
        self.assertEqual(done.out, self.EVERY_BYTE)

    def test_quiet_leaves_stderr_to_the_program(self):
        done = self.record("sh", "-c", "cat >&2", data=self.EVERY_BYTE, options=["--quiet"])
        self.assertEqual(done.err, self.EVERY_BYTE)
        self.assertEqual(done.out, b"")

    def test_our_words_never_reach_stdout(self):
        self.assertEqual(self.record(TARGET, "print", "hello").out, b"hello\n")

    def test_it_is_explained_how_to_open_the_results(self):
        for name, reads in (("t.json.gz", True), ("t.svg", False), ("t.pftrace", True)):
            done = self.run_command("record", "-o", self.path(name), "--", "true")
            self.assertIn(b"the trace is in", done.err)
            self.assertEqual(b"next: ckineto " in done.err, reads, name)
            self.assertEqual(self.run_command("info", self.path(name)).returncode == 0, reads, name)

    def test_no_progress_line_without_a_terminal(self):
        self.assertNotIn(b"\r", self.record(TARGET, "sleep", "1200").err)

    def test_closed_streams_stay_closed(self):
        script = "import os\nfor n in 0, 1, 2:\n try: os.fstat(n); os._exit(n + 1)\n except OSError: pass"
        command = f"exec '{COMMAND}' record -q -o t.json -- '{PYTHON}' -c '{script}' <&- >&- 2>&-"
        before = subprocess.run(["sh", "-c", f"exec '{PYTHON}' -c '{script}' <&- >&- 2>&-"])
        done = subprocess.run(["sh", "-c", command], cwd=self.directory)
        self.assertEqual(done.returncode, before.returncode)
        self.assertTrue(os.path.getsize(self.path("t.json")))

    def test_descriptors_of_ours_do_not_leak_into_it(self):
        script = "import os; print(sorted(os.listdir('/proc/self/fd')))"
        plain = subprocess.run([PYTHON, "-c", script], capture_output=True, stdin=subprocess.DEVNULL)
        self.assertEqual(self.record(PYTHON, "-c", script).out, plain.stdout)


class Surroundings(CommandTest):
    def test_arguments_arrive_as_given(self):
        words = [b"", b"two words", b"--help", b"--", b"-o", b"\xff\xfe", b"new\nline", b"$HOME *"]
        script = "import os, sys; sys.stdout.buffer.write(b'\\0'.join(map(os.fsencode, sys.argv[1:])))"
        done = self.record(PYTHON, "-c", script, *words)
        self.assertEqual(done.out, b"\0".join(words))
        self.assertEqual(self.load()["command"][3:5], ["", "two words"])

    def test_options_of_the_program_need_no_dashes_before_it(self):
        done = self.run_command("record", "-q", "-o", "t.json", "echo", "-o", "--", "x")
        self.assertEqual(done.out, b"-o -- x\n")

    def test_lists_of_the_user_are_kept(self):
        done = self.record("sh", "-c", 'printf %s "$OPENCL_LAYERS"', options=["-q"],
                           env={**os.environ, "OPENCL_LAYERS": "/users/own.so"})
        self.assertEqual(done.out.split(b":")[0], b"/users/own.so")

    @staticmethod
    def signal_masks(text):
        """Without signals 32 and 33, which are libc's own and no program can set."""
        lines = [line.split() for line in text.decode().splitlines()]
        return {name: int(mask, 16) & ~(3 << 31) for name, mask in lines}

    def test_signals_are_set_as_without_us(self):
        show = ["grep", "-E", "^Sig(Ign|Blk|Cgt)", "/proc/self/status"]
        self.assertEqual(self.signal_masks(self.record(*show).out),
                         self.signal_masks(subprocess.check_output(show)))
        ignoring = ["sh", "-c", "trap '' INT QUIT PIPE HUP; exec \"$@\"", "sh"]
        plain = subprocess.check_output([*ignoring, *show])
        ours = [*ignoring, COMMAND, "record", "-q", "-o", "t.json", "--", *show]
        self.assertEqual(self.signal_masks(subprocess.check_output(ours, cwd=self.directory)),
                         self.signal_masks(plain))

    def test_works_where_child_signals_are_ignored(self):
        command = ["sh", "-c", "trap '' CHLD; exec \"$@\"", "sh", COMMAND, "record", "-q", "-o",
                   "t.json", "--", TARGET, "ranges", "5", "exit", "4"]
        self.assertEqual(subprocess.run(command, cwd=self.directory).returncode, 4)
        self.assert_recorded(5)

    def test_a_recording_in_a_recording_keeps_both_whole(self):
        done = self.record(TARGET, "ranges", "3", options=["-q"])
        self.assertEqual(done.returncode, 0)
        done = self.run_command("record", "-q", "-o", "outer.json", "--", COMMAND, "record", "-q",
                                "-o", "t.json", "--", TARGET, "ranges", "7")
        self.assertEqual(done.returncode, 0)
        self.assert_recorded(7)
        self.assertIn("recording inside a recording", [l["reason"] for l in self.ledger()])


class Children(CommandTest):
    LATER = f"(trap '' HUP; sleep 0.5; exec '{TARGET}' ranges 7 sleep 100) & exit 3"

    def still_running(self):
        return [l for l in self.ledger() if l["reason"].startswith("still running") and l["loss"]]

    def test_those_that_outlive_the_program_are_awaited_where_that_is_wanted(self):
        done = self.record("sh", "-c", self.LATER, options=["-q", "--wait-children"])
        self.assertEqual(done.returncode, 3, done.err)
        self.assert_recorded(7)
        self.assertEqual(self.still_running(), [])
        # Also children of children, whose parents are gone.
        done = self.record("sh", "-c", f"sh -c \"{self.LATER}\"; exit 4", options=["-q", "--wait-children"])
        self.assertEqual(done.returncode, 4, done.err)
        self.assert_recorded(7)
        self.assertEqual(self.record("sh", "-c", self.LATER, options=["-q"]).returncode, 3)
        self.assertEqual(self.slices(), [])

    def test_a_signal_ends_the_wait_for_them(self):
        process = self.start("record", "-q", "--wait-children", "-o", "t.json", "--", "sh", "-c",
                             f"'{TARGET}' ranges 5 print ready sleep 60000 & wait_for=$!; sleep 0.2; exit 6")
        self.assertEqual(process.stdout.readline(), b"ready\n")
        program = f"/proc/{process.pid}/task/{process.pid}/children"
        def of_recorder():
            with open(program, encoding="utf-8") as f:
                return f.read().split()
        first = of_recorder()
        # The shell has ended, is not a child any more, and left it to the recorder. One reading each time: between
        # two of them both may be children.
        seen = []
        def only_the_other():
            seen[:] = of_recorder()
            return len(seen) == 1 and seen != first
        self.assertTrue(until(only_the_other))
        left, = seen
        process.terminate()
        self.assertEqual(process.wait(100), 6)
        os.kill(int(left), signal.SIGKILL)
        process.communicate()
        self.assertEqual(len(self.slices()), 10)


class Signals(CommandTest):
    # It leaves at once wherever Python is: an exception raised while Python shuts a file is dropped.
    HANDLER = ("import os, signal, time\n"
               "def stop(*_): os._exit(7)\n"
               "for s in signal.SIGINT, signal.SIGTERM, signal.SIGHUP: signal.signal(s, stop)\n"
               "os.close(os.open('ready', os.O_CREAT))\n"
               "while True: time.sleep(1)\n")

    def start_and_wait(self):
        process = self.start("record", "-o", "t.json", "--", PYTHON, "-c", self.HANDLER,
                             start_new_session=True)
        self.assertTrue(until(lambda: os.path.exists(self.path("ready"))))
        return process

    def finish(self, process, status):
        out, err = process.communicate(timeout=200)
        self.assertEqual(process.returncode, status, err)
        self.load()

    def test_ctrl_c_goes_to_the_program_and_the_trace_is_written(self):
        process = self.start_and_wait()
        os.killpg(process.pid, signal.SIGINT)
        self.finish(process, 7)

    def test_ctrl_c_to_the_recorder_alone_changes_nothing(self):
        process = self.start_and_wait()
        os.kill(process.pid, signal.SIGINT)
        os.kill(process.pid, signal.SIGQUIT)
        os.kill(process.pid, signal.SIGTERM)
        self.finish(process, 7)

    def test_term_and_hup_are_passed_on(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            process = self.start_and_wait()
            os.kill(process.pid, number)
            self.finish(process, 7)
            os.unlink(self.path("ready"))

    def test_a_program_that_dies_of_ctrl_c_leaves_its_trace(self):
        process = self.start("record", "-o", "t.json", "--", TARGET, "ranges", "20", "print", "ready",
                             "sleep", "100000", start_new_session=True)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=200)
        self.assertEqual(process.returncode, 130)
        self.assert_recorded(20)


if __name__ == "__main__":
    main()
