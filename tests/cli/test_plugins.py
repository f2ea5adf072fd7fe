"""Plug-ins as the user of the command meets them: listed, loaded into programs, and left out."""

import json
import os
import re
import shutil
import subprocess
import unittest

from command import COMMAND, TARGET, CommandTest, main

PLUGINS = os.environ.get("CKINETO_TEST_PLUGINS", "")
RT = os.path.join(os.path.dirname(COMMAND), "../lib/libckineto-rt.so")
PLACES = ("KINETO_PLUGIN_LIB_DIR_PATH", "CKINETO_PLUGINS")
LIBRARIES = subprocess.run(["ldd", COMMAND], capture_output=True).stdout
SANITIZED = b"libasan" in LIBRARIES or b"libtsan" in LIBRARIES


class PluginTest(CommandTest):
    def plugin(self, name):
        return os.path.join(PLUGINS, name + ".so")

    def environment(self, **more):
        """Ours, without plug-ins that the user of the tests has."""
        environment = {k: v for k, v in os.environ.items() if k not in PLACES}
        environment["ASAN_OPTIONS"] = environment.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        environment.update(more)
        return environment

    def directory_of(self, name, **files):
        """A directory with plug-ins under other names: file=plug-in."""
        path = self.path(name)
        os.mkdir(path)
        for file, plugin in files.items():
            shutil.copy(self.plugin(plugin), os.path.join(path, file + ".so"))
        return path

    def list(self, *arguments, **more):
        done = self.run_command("plugin", "list", "--json", *arguments, env=self.environment(**more))
        return done, json.loads(done.out)["plugins"]

    def record_with(self, *options, program=(TARGET, "ranges", "3"), **more):
        return self.record(*program, options=options, env=self.environment(**more))

    def device_slices(self):
        return [e for e in self.slices() if e["cat"] in ("kernel", "test_dma")]

    def ledger_of_plugins(self):
        return [l for l in self.ledger() if l["source"] == "plug-ins"]


class List(PluginTest):
    def test_a_plug_in_tells_its_profilers_and_kinds_in_its_own_numbers(self):
        done, plugins = self.list(self.plugin("good"))
        self.assertEqual((done.returncode, len(plugins)), (0, 1))
        self.assertEqual((plugins[0]["state"], plugins[0]["from"]), ("loaded", "given"))
        self.assertEqual(plugins[0]["file"], self.plugin("good"))
        profiler, = plugins[0]["profilers"]
        self.assertEqual((profiler["name"], profiler["vendor"], profiler["revision"]),
                         ("tester", "acme", "b"))
        self.assertEqual([(t["number"], t["kind"], t["own"]) for t in profiler["types"]],
                         [(6, "kernel", False), (8, "runtime", False)])

    def test_a_kind_of_its_own_is_marked_and_its_likeness_reported(self):
        _, plugins = self.list(self.plugin("own"))
        kind, = plugins[0]["profilers"][0]["types"]
        self.assertEqual((kind["name"], kind["own"], kind["kind"]), ("test_dma", True, "gpu_memcpy"))
        self.assertGreaterEqual(kind["number"], 1024)
        self.assertEqual(plugins[0]["own_kinds"],
                         [{"name": "test_dma", "like": "gpu_memcpy", "default": False}])

    def test_what_comes_in_through_an_interface_is_not_blamed_for_being_no_plug_in(self):
        out = self.run_command("plugin", "list", env=self.environment()).out.decode()
        if "ckineto-nvtx.so" not in out:
            self.skipTest("the NVTX source was not built")
        self.assertRegex(out, r"ckineto-nvtx.so \(loaded through .*\)\n +not a plug-in: it records by itself")
        self.assertNotIn("exports no", out)

    def test_names_of_plug_ins_cannot_drive_the_terminal(self):
        done = self.run_command("plugin", "list", self.plugin("own"), env=self.environment())
        self.assertNotIn(b"\x1b", done.out)
        self.assertIn(b"test_dma", done.out)
        self.assertIn(b"its own", done.out)

    def test_whatever_one_does_is_a_verdict_and_the_others_are_reported_all_the_same(self):
        names = ("refuse", "crash", "exit", "hang", "none", "good")
        done, plugins = self.list("--limit", "2", *map(self.plugin, names))
        self.assertEqual(done.returncode, 1)
        self.assertEqual([p["state"] for p in plugins],
                         ["refused", "crashed", "crashed", "timed out", "skipped", "loaded"])
        self.assertIn("7", plugins[0]["reason"])
        for plugin in plugins[:-1]:
            self.assertTrue(plugin["reason"])
            self.assertEqual(plugin["profilers"], [])

    @unittest.skipIf(SANITIZED, "a sanitizer turns the signal into a status")
    def test_the_signal_that_killed_it_is_named(self):
        _, plugins = self.list(self.plugin("crash"))
        self.assertIn("signal 11", plugins[0]["reason"])

    def test_what_is_not_a_library_or_not_there_has_a_reason(self):
        with open(self.path("text.so"), "w") as f:
            f.write("no library\n")
        os.mkdir(self.path("folder.so"))
        done, plugins = self.list("text.so", "absent.so", "folder.so")
        self.assertEqual(done.returncode, 1)
        self.assertEqual([p["state"] for p in plugins], ["refused", "refused", "skipped"])
        self.assertEqual(plugins[0]["file"], self.path("text.so"))
        self.assertIn("No such file", plugins[1]["reason"])

    def test_directories_come_in_order_and_files_in_the_order_of_their_names(self):
        one = self.directory_of("one", b="good", a="own", B="none")
        two = self.directory_of("two", a="good")
        with open(os.path.join(one, "readme.txt"), "w") as f:
            f.write("no .so\n")
        expected = [f"{one}/B.so", f"{one}/a.so", f"{one}/b.so", f"{two}/a.so"]
        done, plugins = self.list("--dir", f"{one}:{two}", LC_ALL="C.UTF-8")
        self.assertEqual([p["file"] for p in plugins], expected)
        self.assertEqual([p["state"] for p in plugins], ["skipped", "loaded", "loaded", "loaded"])
        self.assertEqual(done.returncode, 0, "a library that is not a plug-in may lie in a directory")
        _, plugins = self.list(KINETO_PLUGIN_LIB_DIR_PATH=f"{one}::{two}")
        found = [p["file"] for p in plugins if p["from"] == "environment"]
        self.assertEqual(found, expected)

    def test_a_file_that_comes_again_is_loaded_once(self):
        os.symlink(self.plugin("good"), self.path("again.so"))
        done, plugins = self.list(self.plugin("good"), "again.so")
        self.assertEqual(([p["state"] for p in plugins], done.returncode), (["loaded", "repeated"], 0))
        self.assertIn(self.plugin("good"), plugins[1]["reason"])

    def test_a_directory_that_cannot_be_read_is_reported(self):
        done, plugins = self.list("--dir", "/nonexistent/a")
        self.assertEqual((done.returncode, plugins[0]["state"]), (1, "refused"))
        self.assertIn("No such file", plugins[0]["reason"])

    def test_those_that_come_in_through_a_tool_interface_say_which(self):
        done, plugins = self.list()
        self.assertEqual(done.returncode, 0, done.out)
        for plugin in plugins:
            self.assertIn(plugin["from"], ("installation", "tool interface"))
            self.assertEqual("interface" in plugin, plugin["from"] == "tool interface")

    def test_the_revision_can_be_chosen_unless_the_name_just_ends_so(self):
        _, plugins = self.list(self.plugin("good") + ",rev=early")
        self.assertEqual((plugins[0]["state"], plugins[0]["file"]), ("loaded", self.plugin("good")))
        self.assertEqual(plugins[0]["profilers"][0]["revision"], "early")
        shutil.copy(self.plugin("good"), self.path("odd.so,rev=a"))
        _, plugins = self.list("odd.so,rev=a")
        self.assertEqual(plugins[0]["file"], self.path("odd.so,rev=a"))
        self.assertEqual(plugins[0]["profilers"][0]["revision"], "b")

    def test_listing_works_in_a_program_that_is_recorded(self):
        done = self.record_with("-q", "--plugin", self.plugin("good"),
                                program=(COMMAND, "plugin", "list", self.plugin("good"), self.plugin("own")))
        if b"Sanitizer" in done.err:
            self.skipTest("a sanitizer sees two copies of the recorder")
        self.assertEqual(done.returncode, 0, done.err)
        self.assertIn(b"2 loaded.", done.out)

    def test_mistakes_are_2(self):
        for arguments in ([], ["nonsense"], ["list", "--nonsense"], ["list", "--limit", "0"],
                          ["list", "--dir"]):
            done = self.run_command("plugin", *arguments)
            self.assertEqual((done.returncode, done.out), (2, b""), arguments)
        self.assertEqual(self.run_command("plugin", "--help").returncode, 0)
        self.assertIn(b"--dir", self.run_command("plugin", "list", "--help").out)

    @unittest.skipUnless(os.environ.get("CKINETO_MAN"), "the manual pages are not at hand")
    def test_the_manual_has_every_option(self):
        with open(os.path.join(os.environ["CKINETO_MAN"], "ckineto-plugin.1")) as f:
            manual = f.read().replace("\\-", "-")
        for verb in ("list", "check"):
            help_text = self.run_command("plugin", verb, "--help").out.decode()
            text = "\n".join(l[:28] for l in help_text.partition("Options:")[2].splitlines())
            for option in re.findall(r"--[a-z-]+(?= |$)", text, re.M):
                self.assertIn(option, manual, verb)


class Record(PluginTest):
    def test_a_plug_in_records_in_a_program_that_is_linked_with_the_recorder(self):
        done = self.record_with("--plugin", self.plugin("good"))
        self.assertEqual(done.returncode, 0, done.err)
        self.assert_recorded(3)
        self.assertEqual([e["name"] for e in self.device_slices()], ["kernel", "kernel"])
        loaded = [l for l in self.ledger_of_plugins() if l["reason"] == "loaded"]
        self.assertEqual([l["detail"] for l in loaded], [self.plugin("good")])

    def test_a_plug_in_brings_the_recorder_into_a_program_that_knows_nothing(self):
        done = self.record_with("--plugin", self.plugin("good"), program=("sleep", "0"))
        if b"Sanitizer" in done.err:
            self.skipTest("a sanitizer cannot be preloaded into a plain program")
        self.assertEqual(done.returncode, 0, done.err)
        self.assertEqual([e["name"] for e in self.device_slices()], ["kernel", "kernel"])

    def test_nothing_is_preloaded_when_there_is_no_plug_in(self):
        done = self.record_with("-q", program=("sh", "-c", 'echo "$LD_PRELOAD"'))
        self.assertNotIn(b"ckineto", done.out)

    def test_the_path_may_be_relative_and_the_program_elsewhere(self):
        shutil.copy(self.plugin("good"), self.path("p.so"))
        done = self.record_with("--plugin", "p.so",
                                program=("sh", "-c", f"cd / && exec {TARGET} ranges 1"))
        self.assertEqual(done.returncode, 0, done.err)
        self.assertEqual(len([l for l in self.ledger_of_plugins() if l["reason"] == "refused"]), 0)
        self.assertGreaterEqual(len(self.device_slices()), 2)

    def test_several_plug_ins_record_side_by_side(self):
        done = self.record_with("--plugin", self.plugin("good"), "--plugin", self.plugin("own"),
                                "-a", "default,test_dma")
        self.assertEqual(done.returncode, 0, done.err)
        self.assertEqual(sorted(e["cat"] for e in self.device_slices()),
                         ["kernel"] * 2 + ["test_dma"] * 2)

    def test_the_config_reaches_the_plug_in(self):
        done = self.record_with("--plugin", self.plugin("good"), "--plugin-config", "colour=red")
        self.assertEqual(done.returncode, 0, done.err)
        self.assertEqual({e["name"] for e in self.device_slices()}, {"colour=red"})
        done = self.record_with("--plugin-config", "x" * 2000)
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"--plugin-config", done.err)

    def test_a_kind_of_its_own_is_asked_for_by_name(self):
        self.record_with("--plugin", self.plugin("own"))
        self.assertEqual(self.device_slices(), [], "it is off unless asked for")
        self.record_with("--plugin", self.plugin("own"), "-a", "Test_DMA")
        self.assertEqual([e["cat"] for e in self.slices()], ["test_dma"] * 2)
        self.record_with("--plugin", self.plugin("own"), "-a", "all")
        self.assertEqual(len(self.device_slices()), 2)

    def test_an_unknown_kind_is_a_mistake_and_the_own_ones_are_listed(self):
        done = self.record_with("--plugin", self.plugin("own"), "-a", "test_dna")
        self.assertEqual((done.returncode, os.path.exists(self.path("t.json"))), (125, False))
        for word in (b"test_dna", b"test_dma", b"--kinds"):
            self.assertIn(word, done.err)
        done = self.record_with("-a", "test_dma")
        self.assertEqual(done.returncode, 125, "without the plug-in it is unknown")

    def test_one_that_was_named_and_fails_ends_it_before_the_program_runs(self):
        for name in ("refuse", "crash", "exit", "none", "absent"):
            done = self.record_with("--plugin", self.plugin(name), program=("touch", "ran"))
            self.assertEqual(done.returncode, 125, name)
            self.assertIn(self.plugin(name).encode(), done.err)
            self.assertFalse(os.path.exists(self.path("ran")), name)
            self.assertFalse(os.path.exists(self.path("t.json")), name)

    def test_one_of_a_directory_that_fails_is_a_line_in_the_ledger(self):
        directory = self.directory_of("p", a="crash", b="refuse", c="good", d="exit", e="none")
        done = self.record_with(KINETO_PLUGIN_LIB_DIR_PATH=directory)
        self.assertEqual(done.returncode, 0, done.err)
        self.assertIn(b"a.so", done.err)
        self.assertEqual(len(self.device_slices()), 2)
        reported = {(l["reason"], l["detail"].partition(":")[0]) for l in self.ledger_of_plugins()}
        expected = {("crashed", "a"), ("refused", "b"), ("loaded", "c"), ("crashed", "d"),
                    ("skipped", "e")}
        self.assertEqual(reported, {(reason, f"{directory}/{file}.so") for reason, file in expected})
        self.assertEqual(self.lost(), 0)

    def test_directories_can_be_left_out(self):
        directory = self.directory_of("p", a="crash", c="good")
        done = self.record_with("--no-plugins", "-q", KINETO_PLUGIN_LIB_DIR_PATH=directory)
        self.assertEqual((done.returncode, done.err), (0, b""))
        self.assertEqual((self.device_slices(), self.ledger_of_plugins()), ([], []))
        self.record_with("--no-plugins", "--plugin", self.plugin("good"),
                         KINETO_PLUGIN_LIB_DIR_PATH=directory)
        self.assertEqual(len(self.device_slices()), 2)

    def test_one_that_is_named_and_lies_in_a_directory_is_loaded_once(self):
        done = self.record_with("--plugin", self.plugin("good"), "--plugin", self.plugin("good"),
                                KINETO_PLUGIN_LIB_DIR_PATH=self.directory_of("p"))
        self.assertEqual(done.returncode, 0, done.err)
        os.symlink(self.plugin("good"), self.path("p/link.so"))
        done = self.record_with("--plugin", self.plugin("good"),
                                KINETO_PLUGIN_LIB_DIR_PATH=self.path("p"))
        self.assertEqual((done.returncode, len(self.device_slices())), (0, 2), done.err)

    def test_children_record_too(self):
        done = self.record_with("--plugin", self.plugin("good"),
                                program=(TARGET, "fork", "1", "ranges", "1"))
        self.assertEqual(done.returncode, 0, done.err)
        self.assertGreaterEqual(len(self.device_slices()), 2)


@unittest.skipUnless(os.path.exists(RT), "no library next to the command")
class Installation(PluginTest):
    """A command with its library in another place, and plug-ins in its lib/ckineto/plugins."""

    def setUp(self):
        super().setUp()
        for folder in ("bin", "lib/ckineto/plugins"):
            os.makedirs(self.path(folder))
        shutil.copy(COMMAND, self.path("bin/ckineto"))
        shutil.copy(RT, self.path("lib/libckineto-rt.so"))
        for name, plugin in (("b", "refuse"), ("a", "good")):
            shutil.copy(self.plugin(plugin), self.path(f"lib/ckineto/plugins/{name}.so"))

    def run_installed(self, *arguments):
        return subprocess.run([self.path("bin/ckineto"), *arguments], capture_output=True, timeout=200,
                              cwd=self.directory, env=self.environment())

    def test_its_plug_ins_are_listed(self):
        done = self.run_installed("plugin", "list", "--json")
        plugins = [p for p in json.loads(done.stdout)["plugins"] if p["from"] == "installation"]
        self.assertEqual([(os.path.basename(p["file"]), p["state"]) for p in plugins],
                         [("a.so", "loaded"), ("b.so", "refused")])
        self.assertEqual(done.returncode, 1)

    def test_its_plug_ins_record(self):
        done = self.run_installed("record", "-o", "t.json", "--", "sleep", "0")
        if b"Sanitizer" in done.stderr:
            self.skipTest("a sanitizer cannot be preloaded into a plain program")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.device_slices()), 2)
        self.assertEqual(sorted(l["reason"] for l in self.ledger_of_plugins()), ["loaded", "refused"])


class Doctor(PluginTest):
    def plug_ins(self, **more):
        done = self.run_command("doctor", "--json", env=self.environment(**more))
        self.assertEqual(done.returncode, 0, done.out)
        return next(p for p in json.loads(done.out)["probes"] if p["name"] == "plug-ins")

    def test_says_what_recording_would_load(self):
        found = self.plug_ins(KINETO_PLUGIN_LIB_DIR_PATH=self.directory_of("a", a="good", b="none"))
        self.assertEqual(found["verdict"], "ok")
        self.assertIn("tester", found["text"])

    def test_says_what_cannot_be_loaded(self):
        found = self.plug_ins(KINETO_PLUGIN_LIB_DIR_PATH=self.directory_of("a", a="good", b="crash"))
        self.assertEqual(found["verdict"], "broken")
        for word in ("tester", "b.so", "crashed"):
            self.assertIn(word, found["text"])


if __name__ == "__main__":
    main()
