"""Programs with ROCTX under the recorder, with a stand-in for AMD's library: linked or opened by name, with
and without the library, with and without a profiler of AMD's."""

import os
import shutil
import sys

sys.path.insert(0, os.environ["CLI_TESTS"])
from command import CommandTest, main  # noqa: E402

LINKED = os.environ["ROCTX_LINKED"]
OPENING = os.environ["ROCTX_OPENING"]
STAND_IN = os.environ["ROCTX_STAND_IN"]
OURS = "results 0 0 1 0"  # what AMD's library returns without a profiler
THEIRS = "results 100 100 5000 77"


class Record(CommandTest):
    def run_recorded(self, *command, options=(), **environment):
        """Without ROCm, unless a test says where it is."""
        env = {"ROCM_PATH": self.directory, **os.environ, **environment}
        done = self.record(*command, options=options, env=env, text=True)
        self.assertEqual(done.returncode, 0, done.err + done.out)
        self.trace = self.load()
        self.events = [e for e in self.trace["traceEvents"] if e["ph"] in "Xibe"]
        return done.out.splitlines()

    def phases(self, name):
        return sorted(e["ph"] for e in self.events if e["name"] == name)

    def assert_complete(self):
        self.assertEqual((self.phases("outer"), self.phases("inner"), self.phases("on a thread")), (["X"], ["X"] * 100, ["X"]))
        self.assertEqual((self.phases("mark"), self.phases("from thread to thread")), (["i"], ["b", "e"]))
        self.assertEqual({e["cat"] for e in self.events if e["name"] in ("outer", "inner", "mark")}, {"user_annotation"})
        tid = [e["tid"] for e in self.events if e["name"] == "on a thread"][0]
        names = [e["args"]["name"] for e in self.trace["traceEvents"] if e["name"] == "thread_name" and e["tid"] == tid]
        self.assertIn("stopper", names[0])
        self.assertEqual(self.lost(), 0)

    def test_a_linked_program_needs_no_library_of_amd(self):
        out = self.run_recorded(LINKED, options=["--roctx"])
        self.assertEqual(out, [OURS])
        self.assert_complete()

    def test_every_name_of_the_library_is_found(self):
        for name in ("libroctx64.so", "libroctx64.so.4", "librocprofiler-sdk-roctx.so", "librocprofiler-sdk-roctx.so.1"):
            with self.subTest(name):
                self.assertEqual(self.run_recorded(OPENING, name, options=["--roctx"]), [OURS])
                self.assert_complete()

    def test_calls_are_passed_on_to_a_profiler_of_amd(self):
        out = self.run_recorded(LINKED, options=["--roctx"], ROCP_TOOL_LIBRARIES="/some/tool.so")
        self.assertEqual(out, [THEIRS, "AMD 102 102 1 1 1"])
        self.assert_complete()
        self.assertEqual([l["count"] for l in self.ledger() if (l["source"], l["reason"]) == ("roctx", "stood aside")], [1])

    def test_where_rocm_is_installed_no_option_is_needed(self):
        os.mkdir(self.path("lib"))
        shutil.copy(STAND_IN, self.path("lib/libroctx64.so.4"))
        self.assertEqual(self.run_recorded(LINKED), [THEIRS, "AMD 102 102 1 1 1"])
        self.assert_complete()

    def test_an_absolute_path_is_the_library_of_amd(self):
        out = self.run_recorded(OPENING, STAND_IN, options=["--roctx"])
        self.assertEqual(out, [THEIRS, "AMD 102 102 1 1 1"])
        self.assertEqual(self.phases("outer"), [])  # documented

    def test_nothing_is_loaded_without_rocm(self):
        out = self.run_recorded("/bin/sh", "-c", 'echo "$LD_PRELOAD $LD_LIBRARY_PATH"', LD_PRELOAD="", LD_LIBRARY_PATH="")
        self.assertNotIn("roctx", out[0])
        self.assertEqual(self.run_recorded(LINKED), [THEIRS, "AMD 102 102 1 1 1"])
        self.assertEqual(self.phases("outer"), [])

    def test_a_library_that_is_not_there_is_an_error(self):
        env = {**os.environ, "CKINETO_PLUGIN_DIR": self.directory}
        done = self.run_command("record", "--roctx", "--", LINKED, env=env, text=True)
        self.assertEqual(done.returncode, 125)
        self.assertIn("--roctx: libckineto-roctx.so was not found", done.err)


if __name__ == "__main__":
    main()
