"""Corners of the allocator's interface: a watched program prints what an unwatched one does."""

import os
import subprocess

from memory_test import COMMAND, HOOK, TARGET, MemoryTest, main, program


class Corners(MemoryTest):
    def test_results_alignments_and_errno_stay(self):
        for rate in ("1", "512K", "1T"):
            with self.subTest(rate):
                done = self.watch_same(TARGET, "corners", rate=rate)
                self.assertEqual(done.returncode, 7)
                self.assert_nothing_inside()

    def test_results_stay_when_no_session_records(self):
        plain = subprocess.run([TARGET, "corners"], capture_output=True)
        loaded = subprocess.run([TARGET, "corners"], capture_output=True, env={**os.environ, "LD_PRELOAD": HOOK})
        self.assertEqual((loaded.returncode, loaded.stdout, loaded.stderr),
                         (plain.returncode, plain.stdout, plain.stderr))

    def test_handlers_record_their_allocations(self):
        self.watch_same(TARGET, "corners")
        sizes = [e["args"]["Bytes"] for e in self.events()]
        self.assertEqual(len([s for s in sizes if 4321 <= s < 4400]), 100)
        self.assertEqual(len([s for s in sizes if -4400 < s <= -4321]), 100)

    def test_forks_of_a_program_with_threads(self):
        done = self.watch_same(TARGET, "fork", rate="1")
        self.assertEqual(done.out.decode().splitlines(), [f"child {n}: {n}" for n in range(1, 21)])
        children = {}
        for e in self.events():
            children.setdefault(e["pid"], []).append(e["args"]["Bytes"])
        for number in range(1, 21):
            sizes = [s for s in (1000 + number, 1000 + number + 8, 1016, 1032) if s >= 1000 + number]
            have = [p for p, b in children.items() if sum(x in sizes for x in b) >= 100]
            self.assertTrue(have, number)
        self.assertGreaterEqual(len(children), 21)
        self.assert_nothing_inside()

    def test_threads_that_end_with_memory(self):
        for rate in ("1", "4K"):
            with self.subTest(rate):
                self.watch_same(TARGET, "exits", rate=rate)
                # What libc itself releases of a thread, after all destructors: the text of an error each.
                late = self.line("in threads that had ended") or 0
                self.assertEqual(self.lost(), late)
                self.assertLessEqual(late, 400)
                self.assertIsNone(self.line("calls inside of others"))

    def test_new_and_delete(self):
        if not os.path.exists(program("memory_new_delete")):
            self.skipTest("no C++ compiler")
        self.watch_same(program("memory_new_delete"))
        sizes = [e["args"]["Bytes"] for e in self.events()]
        self.assertGreaterEqual(len([s for s in sizes if 201 <= s < 230]), 2000)
        self.assertGreaterEqual(len([s for s in sizes if 4096 <= s < 4300]), 100)
        self.assertGreaterEqual(len([s for s in sizes if -4300 < s <= -4096]), 100)
        self.assert_nothing_inside()

    def test_an_allocator_after_the_hook(self):
        """One that the user preloads is the hook's next one, not the other way round."""
        self.watch_same(program("memory_plain"), libraries=["memory_arena_sizes.so"])
        self.assertGreater(len(self.events()), 1000)
        self.assertIsNone(self.line("processes whose allocator is their own"))

    def test_an_allocator_in_front_of_the_hook(self):
        preload = f"LD_PRELOAD={program('memory_arena_sizes.so')}:{HOOK}"
        self.watch_same("env", preload, program("memory_plain"))
        self.assertEqual(self.line("processes whose allocator is their own"), 1)

    def test_allocators_that_people_use(self):
        found = 0
        for name in ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libtcmalloc.so.4", "libmimalloc.so.2"):
            if subprocess.run(["true"], env={**os.environ, "LD_PRELOAD": name}, capture_output=True).stderr:
                continue
            found += 1
            with self.subTest(name):
                for mode in ("exits", "fork", "log"):
                    done = self.watch(TARGET, mode, LD_PRELOAD=name)
                    self.assertEqual((done.returncode, done.plain.returncode), (0, 0))
                    if mode != "log":  # which prints addresses
                        self.assertEqual(done.out, done.plain.stdout)
                    self.assertGreater(len(self.events()), 200)
                    self.assertIsNone(self.line("calls inside of others"))
                    self.assertIsNone(self.line("totals are of recorded blocks"))
        if not found:
            self.skipTest("neither jemalloc nor tcmalloc nor mimalloc is here")

    def record_after(self, library):
        env = self.environment(LD_PRELOAD=program(library))
        done = self.run_command("record", "-q", "-o", "t.json", "--memory=1", "--", program("memory_plain"), env=env)
        self.assertEqual((done.returncode, done.out), (5, b"arena: xxxxxxxxxx\n"), done.err)
        return [e["args"] for e in self.events()]

    def test_an_allocator_with_sizes_is_passed_on_to(self):
        events = self.record_after("memory_arena_sizes.so")
        self.assertGreaterEqual(len(events), 3500)
        self.assertTrue(all((abs(e["Bytes"]) + 16) & (abs(e["Bytes"]) + 15) == 0 for e in events), "powers of two")
        self.assertEqual(self.lost(), 0)

    def test_an_allocator_without_sizes_gets_totals_of_what_was_asked(self):
        events = self.record_after("memory_arena_no_sizes.so")
        self.assertEqual(self.line("totals are of recorded blocks"), 1)
        self.assertIn(3 * 999 + 10, [e["Bytes"] for e in events])
        for a, b in zip(events, events[1:]):
            self.assertEqual(b["Total Allocated"] - a["Total Allocated"], b["Bytes"])

    def test_an_allocator_that_calls_itself_is_counted_once(self):
        events = self.record_after("memory_arena_calls_malloc.so")
        self.assertGreaterEqual(self.line("calls inside of others"), 334)
        alive = {}
        for e in events:
            self.assertEqual(e["Addr"] in alive, e["Bytes"] < 0, e)
            if e["Bytes"] > 0:
                alive[e["Addr"]] = e["Bytes"]
            else:
                self.assertEqual(alive.pop(e["Addr"]), -e["Bytes"])

    def test_a_program_with_an_allocator_of_its_own(self):
        self.watch_same(program("memory_own"))
        self.assertEqual(self.line("processes whose allocator is their own"), 1)
        with open(HOOK, "rb") as hook:
            if b".gcda" not in hook.read():  # what counts for coverage allocates for itself, when all ends
                self.assertEqual(self.events(), [])

    def test_a_static_program(self):
        self.watch_same(program("memory_static"))
        self.assertEqual(self.events(), [])
        self.assertIn("processes not recorded", [l["source"] for l in self.ledger()])

    def test_calls_while_the_allocator_is_looked_for(self):
        libraries = f"{HOOK}:{program('memory_early.so')}"
        for rate in ("1", None):
            command = [program("memory_plain")]
            env = {**os.environ, "LD_PRELOAD": libraries}
            if rate:
                done = self.run_command("record", "-q", "-o", "t.json", "--memory=1", "--", *command, env=env)
                self.assertGreaterEqual(self.line("served before the allocator was found"), 1)
                self.assertEqual(done.err, b"allocated early\n" * 2)  # the recorder has it, too
                out, err, code = done.out, done.err[:16], done.returncode
            else:
                done = subprocess.run(command, env=env, capture_output=True)
                out, err, code = done.stdout, done.stderr, done.returncode
            self.assertEqual((code, out, err), (5, b"libc: xxxxxxxxxx\n", b"allocated early\n"))

    def test_a_program_that_records_itself(self):
        """No session runs when the library starts; the session begins later."""
        example = os.path.join(os.path.dirname(COMMAND), "example_self_record")
        if not os.path.exists(example):
            self.skipTest("the example is not built")
        env = {**os.environ, "LD_PRELOAD": HOOK, "CKINETO_MEMORY_SAMPLING": "1"}
        done = subprocess.run([example], env=env, cwd=self.directory, capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertGreater(len(self.events("self_record.json")), 0)
        self.assertEqual(self.load("self_record.json")["ckineto_memory_sampling_bytes"], 1)
        self.assertEqual(self.line("mean bytes between sampled allocations", "self_record.json"), 1)
        self.assertEqual(self.lost("self_record.json"), 0)

    def test_the_hook_is_named_when_it_is_not_there(self):
        env = {**os.environ, "CKINETO_PLUGIN_DIR": self.directory}
        done = self.run_command("record", "--memory", "--", "true", env=env)
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"libckineto-memory.so was not found", done.err)

    def test_sizes_on_the_command_line(self):
        for size in ("", "x", "-1", "2T", "1.5M"):
            done = self.run_command("record", f"--memory={size}", "--", "true")
            self.assertEqual(done.returncode, 125, size)
            self.assertIn(b"--memory", done.err)
        done = self.run_command("record", "-q", "-o", "t.json", "--memory=0", "--kinds", "kernel", "--", TARGET,
                                "corners")
        self.assertEqual(done.returncode, 7)
        self.assertGreater(len(self.events()), 200)
        self.assertEqual(self.load()["ckineto_memory_sampling_bytes"], 1)

    def test_a_bad_setting_is_the_default(self):
        for text in ("", "abc", "-5", "99999999999999999999999999"):
            env = {**os.environ, "LD_PRELOAD": HOOK, "CKINETO_MEMORY_SAMPLING": text}
            done = subprocess.run([TARGET, "corners"], env=env, capture_output=True)
            self.assertEqual(done.returncode, 7, text)


if __name__ == "__main__":
    main()
