"""Ranges arrive at the tool that the environment names, NVTX's and ITT's, whatever the tool is like.

usage: test_emission.py PROGRAM NVTX-TOOL ITT-TOOL OLD-ITT-TOOL SCRATCH [unittest arguments]
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM, NVTX, ITT, OLD_ITT, SCRATCH = sys.argv[1:6]
VARIABLE = {"nvtx": "NVTX_INJECTION64_PATH", "itt": "INTEL_LIBITTNOTIFY64"}
PLAIN = not os.environ.get("EMIT_SANITIZED")


class Emission(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(dir=SCRATCH)
        self.log = os.path.join(self.folder.name, "log")

    def tearDown(self):
        self.folder.cleanup()

    def run_program(self, kind, *arguments, library=None, tool=None, status=0):
        """Lines that the program writes."""
        environment = {k: v for k, v in os.environ.items() if k not in VARIABLE.values()}
        environment.update(EMIT_LOG=self.log)
        if library is not None:
            environment[VARIABLE[kind]] = library
        if tool is not None:
            environment["EMIT_TOOL"] = tool
        done = subprocess.run([PROGRAM, kind, *arguments], env=environment, timeout=240,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout.splitlines()

    def calls(self):
        """(pid, tid, call, text) of each, in order."""
        if not os.path.exists(self.log):
            return []
        with open(self.log, encoding="utf-8") as file:
            lines = [line.rstrip("\n").split(" ", 3) for line in file]
        found = [(int(pid), int(tid), call, text) for pid, tid, call, text in lines]
        self.assertNotIn("malformed", [call for _, _, call, _ in found])
        return found

    def what(self, *left_out):
        return [(call, text) for _, _, call, text in self.calls()
                if call not in ("initialize", "sizes", *left_out)]

    def refused(self, lines, status, *words):
        self.assertTrue(lines[0].startswith(status + " "), lines)
        for word in words:
            self.assertIn(word, lines[0])
        self.assertIn("pushed 0", lines)

    # ---- no tool, and tools that do not support it -------------------------------------------------------

    def test_without_a_listener_the_variable_to_set_is_named(self):
        for kind in VARIABLE:
            self.refused(self.run_program(kind, "open"), "E_NOT_FOUND", VARIABLE[kind], "no tool")
            self.refused(self.run_program(kind, "open", library=""), "E_NOT_FOUND", VARIABLE[kind])

    def test_a_library_that_is_not_there_is_named(self):
        for kind in VARIABLE:
            self.refused(self.run_program(kind, "open", library="/nowhere/tool.so"), "E_PLUGIN",
                         "/nowhere/tool.so", VARIABLE[kind])

    def test_what_is_not_a_library_is_refused(self):
        text, cut = (os.path.join(self.folder.name, n) for n in ("text.so", "cut.so"))
        with open(text, "w") as file:
            file.write("not a library\n")
        with open(NVTX, "rb") as whole, open(cut, "wb") as file:
            file.write(whole.read()[:9000])
        pipe = os.path.join(self.folder.name, "pipe")
        os.mkfifo(pipe)
        for kind in VARIABLE:
            self.refused(self.run_program(kind, "open", library=text), "E_PLUGIN", text)
            self.refused(self.run_program(kind, "open", library=cut), "E_FORMAT", "ends early")
            self.refused(self.run_program(kind, "open", library=pipe), "E_FORMAT", "not a regular file")
            self.refused(self.run_program(kind, "open", library=self.folder.name), "E_FORMAT")

    def test_a_library_of_something_else_is_refused_with_the_missing_name(self):
        self.refused(self.run_program("nvtx", "open", library=ITT), "E_FORMAT",
                     "InitializeInjectionNvtx2")
        self.refused(self.run_program("itt", "open", library=NVTX), "E_FORMAT", "__itt_api_init")

    def test_a_tool_that_fails_is_not_called_again(self):
        self.refused(self.run_program("nvtx", "open", library=NVTX, tool="fails"), "E_PLUGIN",
                     "returned 0")
        self.assertEqual(self.what(), [])

    def test_tools_that_take_no_ranges_are_refused(self):
        self.refused(self.run_program("nvtx", "open", library=NVTX, tool="deaf"), "E_UNSUPPORTED",
                     "provides no range callbacks")
        for tool in ("nothing", "no-end"):
            self.refused(self.run_program("itt", "open", library=ITT, tool=tool), "E_UNSUPPORTED",
                         "tasks")
        self.assertEqual(self.what(), [])

    def test_a_tool_without_functions_receives_nothing(self):
        for tool in ("nothing", "no-pop"):
            self.assertEqual(self.run_program("nvtx", "open", library=NVTX, tool=tool),
                             ["OK ", "pushed 0"])
        self.assertEqual(self.what(), [])

    def test_a_tool_may_fill_in_its_functions_later(self):
        self.assertEqual(self.run_program("nvtx", "late", library=NVTX, tool="nothing"),
                         ["OK ", "pushed 0", "pushed 1"])
        self.assertEqual(self.what(), [("pushA", "after"), ("pop", "")])

    def test_collectors_without_domains_or_strings_are_refused(self):
        self.refused(self.run_program("itt", "open", library=ITT, tool="no-domain"), "E_PLUGIN",
                     "domain")
        self.refused(self.run_program("itt", "open", library=ITT, tool="no-string"), "E_PLUGIN",
                     "handle")

    # ---- ranges ------------------------------------------------------------------------------------

    def in_order(self, push, pop, mark, decorate):
        threads = {}
        for _, tid, call, text in self.calls():
            if call in (push, pop, mark):
                threads.setdefault(tid, []).append((call, text if call != pop else ""))
        outer = set()
        for calls in threads.values():
            outer.add(calls[0][1])
            expected = []
            for i in range(50):
                expected += [(push, calls[0][1]), (push, decorate(f"inner {i}")),
                             (mark, decorate("between") + (" 3" if mark == "marker" else "")),
                             (pop, ""), (pop, "")]
            self.assertEqual(calls, expected)
        return outer

    def test_threads_see_their_own_ranges_in_order(self):
        ways = {"": ("pushA", "pop", "markA"), "attributes": ("pushEx", "pop", "markEx"),
                "domain": ("domainPushEx", "domainPop", "domainMarkEx"),
                "newer": ("pushA", "pop", None)}
        for tool, (push, pop, mark) in ways.items():
            with self.subTest(tool=tool):
                if os.path.exists(self.log):
                    os.remove(self.log)
                self.assertEqual(self.run_program("nvtx", "ranges", "4", library=NVTX, tool=tool),
                                 ["OK "])
                calls = [c for _, _, c, _ in self.calls()]
                self.assertEqual(calls.count("initialize"), 1)
                self.assertEqual(calls.count(push), 4 * 100)
                self.assertEqual(calls.count(pop), 4 * 100)
                if mark:
                    outer = self.in_order(push, pop, mark, lambda text: text)
                    self.assertEqual(outer, {f"outer {i}" for i in range(4)})
                if tool == "domain":
                    self.assertEqual(calls.count("domainCreateA"), 1)
                    self.assertEqual({t for _, _, c, t in self.calls() if c == "inDomain"},
                                     {"ckineto"})

    def test_tables_have_the_sizes_of_the_interface(self):
        self.run_program("nvtx", "open", library=NVTX)
        received = {call: text for _, _, call, text in self.calls()}
        self.assertEqual(received["sizes"], "16 9 15 7 16 7")
        self.assertEqual(received["initialize"], "3 24 16")

    def test_a_tool_without_named_domains_gets_ranges_in_the_unnamed_one(self):
        self.run_program("nvtx", "open", library=NVTX, tool="domain-unnamed")
        self.assertEqual(self.what(), [("inDomain", ""), ("domainPushEx", "after"),
                                       ("domainPop", "")])

    def test_tasks_of_threads_are_in_the_domain(self):
        for tool in ("", "own"):
            with self.subTest(tool=tool):
                if os.path.exists(self.log):
                    os.remove(self.log)
                self.run_program("itt", "ranges", "4", library=ITT, tool=tool)
                domain = "of-the-collector" if tool == "own" else "ckineto"
                outer = self.in_order("taskBegin", "taskEnd", "marker", lambda t: f"{domain} {t}")
                self.assertEqual(outer, {f"{domain} outer {i}" for i in range(4)})
                if tool == "own":
                    made = [t for _, _, c, t in self.calls() if c == "stringCreate"]
                    self.assertEqual(set(made), {"(other names)", "between"} |
                                     {f"outer {i}" for i in range(4)} |
                                     {f"inner {i}" for i in range(50)})

    def test_a_collector_without_markers_sees_a_task_without_length(self):
        self.run_program("itt", "open", library=ITT, tool="no-marker")
        self.assertEqual(self.what(), [("taskBegin", "ckineto after"), ("taskEnd", "ckineto"),
                                       ("taskBegin", "ckineto after"), ("taskEnd", "ckineto")])

    def test_collectors_that_leave_or_export_functions_work(self):
        once = [("taskBegin", "ckineto after"), ("taskEnd", "ckineto"),
                ("marker", "ckineto after 3")]
        self.run_program("itt", "open", library=ITT, tool="leaves-slots")
        self.assertEqual(self.what(), once)
        os.remove(self.log)
        self.assertEqual(self.run_program("itt", "open", library=OLD_ITT), ["OK ", "pushed 1"])
        self.assertEqual(self.what(), once)

    def test_a_tool_may_withdraw_a_function(self):
        self.assertEqual(self.run_program("nvtx", "withdraw", library=NVTX, tool="withdraws"),
                         ["OK ", "pushed 1", "pushed 0"])
        self.assertEqual(self.what(), [("pushA", "before"), ("pop", "")])

    def test_a_tool_that_calls_back_while_it_is_initialised_is_refused(self):
        self.assertEqual(self.run_program("nvtx", "open", library=NVTX, tool="calls-back"),
                         ["OK ", "pushed 1"])
        self.assertEqual(self.what(), [("again", "-5"), ("pushA", "after"), ("pop", "")])

    @unittest.skipUnless(PLAIN and os.geteuid() == 0, "needs the superuser, and no sanitizer")
    def test_a_program_with_raised_privileges_loads_nothing(self):
        program = os.path.join(self.folder.name, "raised")
        shutil.copy(PROGRAM, program)
        os.chmod(program, 0o4755)
        os.chmod(self.folder.name, 0o755)
        for kind, library in (("nvtx", NVTX), ("itt", ITT)):
            done = subprocess.run([program, kind, "secure"], user=65534, capture_output=True,
                                  env={VARIABLE[kind]: library, "EMIT_LOG": self.log}, text=True,
                                  timeout=60)
            lines = done.stdout.splitlines()
            if "secure 0" in lines or not lines:
                self.skipTest("privileges cannot be raised here")
            self.refused(lines[1:], "E_PERMISSION", VARIABLE[kind], "privileges")
        self.assertEqual(self.calls(), [])

    # ---- once, and also after a fork ---------------------------------------------------------------

    def test_threads_that_open_at_once_initialise_once(self):
        for kind, library, push in (("nvtx", NVTX, "pushA"), ("itt", ITT, "taskBegin")):
            with self.subTest(kind=kind):
                if os.path.exists(self.log):
                    os.remove(self.log)
                self.assertEqual(self.run_program(kind, "race", "8", library=library, tool="slow"
                                                  if kind == "nvtx" else ""), [])
                calls = [call for _, _, call, _ in self.calls()]
                self.assertEqual(calls.count("initialize"), 1)
                self.assertEqual(calls.count(push), 8 * 100)

    def test_a_forked_child_goes_on(self):
        for kind, library, push in (("nvtx", NVTX, "pushA"), ("itt", ITT, "taskBegin")):
            with self.subTest(kind=kind):
                if os.path.exists(self.log):
                    os.remove(self.log)
                self.run_program(kind, "fork", library=library)
                pushed = {text.split()[-1]: pid for pid, _, c, text in self.calls() if c == push}
                self.assertEqual(set(pushed), {"parent", "child"})
                self.assertNotEqual(pushed["parent"], pushed["child"])
                self.assertEqual([c for _, _, c, _ in self.calls()].count("initialize"), 1)

    @unittest.skipUnless(PLAIN, "sanitizers cannot fork while other threads run")
    def test_a_child_forked_within_the_initialisation_does_it_again(self):
        self.run_program("nvtx", "fork-within", library=NVTX, tool="slow")
        begun = {pid for pid, _, call, _ in self.calls() if call == "initialize"}
        self.assertEqual(len(begun), 2)
        child = [pid for pid, _, call, text in self.calls() if (call, text) == ("pushA", "child")]
        self.assertEqual(len(child), 1)

    # ---- what it costs, and operators ---------------------------------------------------------------

    def test_names_are_allocated_once(self):
        for kind, library in (("nvtx", NVTX), ("itt", ITT)):
            lines = self.run_program(kind, "allocations", "1000", library=library)
            if lines[-1] != "counts 1":
                self.skipTest("allocations are the sanitizer's")
            later = [int(line.split()[-1]) for line in lines if line.startswith("allocations")][1:]
            self.assertEqual(later, [0, 0], (kind, lines))

    def test_names_beyond_the_limit_are_shown_as_others(self):
        self.run_program("itt", "names", "13000", library=ITT)
        first = [text for _, _, call, text in self.calls() if call == "taskBegin"]
        self.assertEqual(first[12287], "ckineto name 12287")
        self.assertEqual(set(first[12288:]), {"ckineto (other names)"})
        self.assertEqual(len(set(first)), 12289)

    def test_operators_are_called_as_pytorch_calls_them(self):
        lines = self.run_program("nvtx", "operators", "1", library=NVTX)
        self.assertEqual(lines, ["OK ", "needs 1 1 1 1", "async 0"])
        second = ("aten::second, op_id = 6, sizes = [[], [], [], [2, 3], []], "
                  "input_op_ids = [(0,-1), (5,1), (0,-1), (0,-1), (5,1)]")
        self.assertEqual(self.what(), [
            ("pushA", "aten::first, seq = 8, op_id = 5, sizes = [[2, 3], [], [], [2, 3], []], "
                      "input_op_ids = [(0,-1), (0,-1), (0,-1), (0,-1), (0,-1)]"),
            ("pop", ""), ("pushA", second), ("pop", ""), ("markA", second)])

    def test_operators_without_shapes_say_name_and_numbers(self):
        self.assertEqual(self.run_program("nvtx", "operators", "0", library=NVTX)[1],
                         "needs 1 0 0 1")
        self.assertEqual([t for c, t in self.what() if c == "pushA"],
                         ["aten::first, seq = 8, op_id = 5", "aten::second, op_id = 6"])

    def test_operators_of_a_program_are_ranges(self):
        status, made, used = map(int, self.run_program("nvtx", "functions", library=NVTX)[0].split())
        self.assertEqual(status, 0)
        texts = [text for call, text in self.what() if call == "pushA"]
        self.assertRegex(texts[0], r"^step, op_id = \d+$")
        self.assertEqual(texts[1:], [f"aten::made, op_id = {made}",
                                     f"aten::used, op_id = {used}, sizes = [[4]], "
                                     f"input_op_ids = [({made},0)]"])
        self.assertEqual([call for call, _ in self.what()],
                         ["pushA", "pushA", "pop", "pushA", "pop", "pop"])

    def test_tasks_of_operators_bear_the_name_alone(self):
        self.assertEqual(self.run_program("itt", "operators", "1", library=ITT)[1],
                         "needs 0 0 0 1")
        self.assertEqual([t for c, t in self.what() if c == "taskBegin"],
                         ["ckineto aten::first", "ckineto aten::second"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[6:])
