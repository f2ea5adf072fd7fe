"""`ckineto record --python` with programs that never import PyTorch.

    CKINETO=build/dev/bin/ckineto python3 tests/python/test_plain.py [--all | PYTHON...]

Counts of rows are compared with those that the program counts itself. The programs run with each PYTHON, by
default with this one; with --all, with the versions from 3.9 on that are in the PATH or under ~/.pyenv.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "plain_program.py")
COMMAND = os.path.abspath(os.environ.get("CKINETO", "ckineto"))
PYTHON = {"path": sys.executable}


class Plain(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ckineto-plain-")
        self.addCleanup(shutil.rmtree, self.folder, True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as file:
            file.write(textwrap.dedent(text))
        return self.path(name)

    def record(self, *arguments, options=("--python",), status=0, env=None):
        """Run Python with arguments under the command. @return stdout, the trace's events, stderr."""
        trace = self.path("trace.json")
        cpu = () if "--cpu" in options else ("--cpu", "off")
        done = subprocess.run(
            [COMMAND, "record", *cpu, *options, "-o", trace, "--", PYTHON["path"], *arguments],
            cwd=self.folder, env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1", **(env or {})),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
        self.assertEqual(done.returncode, status, done.stderr)
        with open(trace) as file:
            self.document = json.load(file)
        return done.stdout, self.document["traceEvents"], done.stderr

    def rows(self, events, file="plain_program.py"):
        return [e for e in events if e.get("cat") == "python_function" and e["name"].startswith(file + "(")]

    def check_counts(self, events, expected):
        found = {}
        for row in self.rows(events):
            name = row["name"].split(": ", 1)[1]
            found[name] = found.get(name, 0) + 1
        self.assertEqual({name: found.get(name, 0) for name in expected}, expected)

    def check_nesting(self, events):
        """Rows of a thread are disjoint or nested, and the parent of each is the innermost row around it."""
        threads = {}
        for row in events:
            if row.get("cat") == "python_function":
                threads.setdefault((row["pid"], row["tid"]), []).append(row)
        for rows in threads.values():
            by_id = {row["args"]["Python id"]: row for row in rows if "Python id" in row.get("args", {})}
            for row in by_id.values():
                parent = by_id.get(row["args"]["Python parent id"])
                if parent is not None:
                    self.assertLessEqual(parent["ts"], row["ts"] + 0.002)
                    self.assertGreaterEqual(parent["ts"] + parent["dur"], row["ts"] + row["dur"] - 0.002)
        return threads


class Recording(Plain):
    def test_the_cost_of_many_short_calls_is_reported(self):
        many = self.write("many.py", """
            def add(n): return n + 1
            for i in range(400000): add(i)
            """)
        few = self.write("few.py", """
            def add(n): return sum(range(4000000))
            for i in range(10): add(i)
            """)
        reported = r"recording 400,\d+ calls of Python functions took about [\d.]+ ms of CPU time, \d+ % of what the program takes"
        self.assertRegex(" ".join(self.record(many)[2].split()), reported)
        self.assertNotIn("calls of Python functions took", self.record(few)[2])

    def test_counts_are_those_of_the_program(self):
        out, events, _ = self.record(PROGRAM)
        self.check_counts(events, json.loads(out))
        threads = self.check_nesting(events)
        self.assertEqual(len(threads), 5)

    def test_functions_in_c_are_recorded(self):
        program = self.write("c.py", """
            def f(values):
                for n in range(7):
                    len(values)
            f([])
            """)
        _, events, _ = self.record(program)
        [f] = self.rows(events, "c.py")[1:] if self.rows(events, "c.py")[0]["name"].endswith("<module>") else \
            self.rows(events, "c.py")[:1]
        calls = [e for e in events if e.get("name") == "<built-in function len>"
                 and e["args"]["Python parent id"] == f["args"]["Python id"]]
        self.assertEqual(len(calls), 7)

    def test_ends_of_processes_keep_running_functions(self):
        for how, status in (("_exit", 3), ("exec", 0), ("fork", 0)):
            out, events, _ = self.record(PROGRAM, how, status=status)
            expected = json.loads(out)
            if how == "fork":
                expected["fib"] += 15
                expected["main"] += 1
                expected["<module>"] += 1
            self.check_counts(events, expected)

    def test_threads_at_once_have_all_rows(self):
        """Compared with the interpreter's own events, which another tool counts; code objects come and go."""
        program = self.write("crowd.py", """
            import collections, json, sys, threading
            local, every = threading.local(), []
            def on_start(code, offset):
                if code.co_filename in (__file__, "made"):
                    if not hasattr(local, "counts"):
                        local.counts = collections.Counter()
                        every.append(local.counts)
                    local.counts[code.co_name] += 1
            class Thing:
                def method(self, n): return sorted([n, 1])
            def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
            def fail(n): raise KeyError(n)
            def work(me):
                for n in range(40):
                    made = {}
                    exec(compile("def made_%d(): return str(1).join('ab')" % n, "made", "exec"), made)
                    made["made_%d" % n]()
                    Thing().method(fib(7))
                    try: fail(n)
                    except KeyError: pass
            if hasattr(sys, "monitoring"):
                sys.monitoring.use_tool_id(2, "counts")
                sys.monitoring.register_callback(2, sys.monitoring.events.PY_START, on_start)
                sys.monitoring.set_events(2, sys.monitoring.events.PY_START)
            threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
            for t in threads: t.start()
            for t in threads: t.join()
            if hasattr(sys, "monitoring"): sys.monitoring.set_events(2, 0)
            print(json.dumps(sum(every, collections.Counter())))
            """)
        out, events, _ = self.record(program)
        counted = json.loads(out) or {"work": 6, "fib": 6 * 40 * 41, "fail": 240, "method": 240}
        rows = self.rows(events, "crowd.py") + self.rows(events, "made")
        names = [row["name"].split(": ")[1] for row in rows]
        self.assertEqual({name: names.count(name) for name in counted if name != "<module>"},
                         {name: number for name, number in counted.items() if name != "<module>"})
        self.assertEqual(len({row["args"]["Python id"] for row in rows}), len(rows))
        self.check_nesting(events)

    def test_a_second_user_adds_no_rows(self):
        program = self.write("twice.py", """
            from ckineto_attach import stacks
            def f(): pass
            def g():
                for _ in range(10): f()
            assert stacks.status()["users"] == 1
            assert stacks.start(functions=True, modules=True)
            g()
            stacks.stop()
            g()
            """)
        _, events, _ = self.record(program)
        self.check_counts([dict(e, name=e["name"].replace("twice.py", "plain_program.py")) for e in events],
                          {"f": 20, "g": 2})

    def test_other_tools_go_on(self):
        program = self.write("profiled.py", """
            import cProfile, io, pstats, sys
            def f(): pass
            def g():
                for _ in range(10): f()
            p = cProfile.Profile()
            p.runcall(g)
            out = io.StringIO()
            pstats.Stats(p, stream=out).print_stats("f")
            assert "10 " in out.getvalue(), out.getvalue()
            print(sys.version_info >= (3, 12))
            """)
        out, _, err = self.record(program)
        line = "threads that another profiler took over"  # until 3.11 a thread has one profiler
        (self.assertNotIn if out == "True\n" else self.assertIn)(line, err)

    def test_sampled_stacks_name_functions(self):
        program = self.write("samples.py", """
            import sys
            def leaf(n):
                return sum(k * k for k in range(n))
            if sys.version_info < (3, 12):
                sys.exit(77)
            for _ in range(10): leaf(200000)
            """)
        status = subprocess.run([PYTHON["path"], program], check=False).returncode
        if status:
            self.skipTest("Python before 3.12 writes no names for profilers")
        _, events, _ = self.record(program, options=("--python-perf", "--cpu", "999"))
        if not [e for e in events if e.get("cat") == "cpu_sample"]:
            self.skipTest("no CPU samples here")
        names = {e["name"] for e in events if e.get("cat") == "cpu_sample"}
        self.assertIn("py::leaf:" + program, names)
        for pid in {e["pid"] for e in events if e.get("cat") == "cpu_sample"}:
            self.assertFalse(os.path.exists("/tmp/perf-%d.map" % pid))

    def test_results_do_not_change(self):
        program = self.write("result.py", """
            import sys
            print(sys.argv, sys.path[0], __name__, sys.getprofile() is None or sys.version_info < (3, 12),
                  "ctypes" in sys.modules)
            """)
        out, _, err = self.record(program, "a", "b")
        plain = subprocess.run([PYTHON["path"], program, "a", "b"], stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual(out, plain.stdout, err)


class Filter(Plain):
    def setUp(self):
        super().setUp()
        self.write("wanted/__init__.py", "")
        self.write("wanted/part.py", """
            import other
            def f(n):
                len("wanted")
                return other.back(g, n)
            def g(n):
                return n
            def fail(n):
                other.back(raises, n)
            def raises(n):
                raise KeyError(n)
            """)
        self.write("wanted_not.py", "def f(n): return n\n")
        self.write("other.py", """
            def back(function, n):
                abs(n)
                return function(n)
            """)
        self.program = self.write("program.py", """
            import wanted.part, wanted_not
            def main():
                for n in range(50):
                    wanted.part.f(n)
                    wanted_not.f(n)
                    try:
                        wanted.part.fail(n)
                    except KeyError:
                        pass
            main()
            """)

    def names(self, events):
        found = {}
        for row in events:
            if row.get("cat") == "python_function" and "Python id" in row.get("args", {}):
                name = row["name"]
                name = name.split("(")[0] + ":" + name.split(": ")[1] if ".py(" in name else name
                found[name] = found.get(name, 0) + 1
        return found

    def test_only_functions_of_a_package_and_their_calls_of_c(self):
        _, events, _ = self.record(self.program, options=("--python-only", "wanted"))
        self.assertEqual(self.names(events), {
            "wanted/__init__.py:<module>": 1, "wanted/part.py:<module>": 1, "wanted/part.py:f": 50,
            "wanted/part.py:g": 50, "wanted/part.py:fail": 50, "wanted/part.py:raises": 50,
            "<built-in function len>": 50})
        rows = {row["args"]["Python id"]: row for row in events if row.get("cat") == "python_function"}
        for row in rows.values():  # the time of functions outside counts to the caller
            if row["name"].endswith(": g"):
                self.assertTrue(rows[row["args"]["Python parent id"]]["name"].endswith(": f"))
        self.check_nesting(events)

    def test_modules_and_the_main_program(self):
        _, events, _ = self.record(self.program, options=("--python-only", "wanted_not,__main__"))
        found = self.names(events)
        self.assertEqual(found.get("wanted_not.py:f"), 50)
        self.assertEqual(found.get("program.py:main"), 1)
        self.assertFalse([n for n in found if n.startswith(("wanted/", "other"))])
        _, events, _ = self.record("-c", "def f(): pass\nf()", options=("--python-only", "__main__"))
        self.assertEqual(self.names(events), {"<string>(1): <module>": 1, "<string>(1): f": 1})

    def test_a_name_that_no_function_has(self):
        for program, options, unused in ((self.program, "wanted,wantd,__main__", ["wantd"]),
                                         (self.program, "wanted.part,other.part", ["other.part"]),
                                         ("-c", "nothing", ["nothing"])):
            end = ("def f(): pass\nf()",) if program == "-c" else ()
            _, _, err = self.record(program, *end, options=("--python-only", options, "-v"))
            self.assertEqual(re.findall(r"--python-only: no function of '(.*?)' ran;", err), unused)
            for name in options.split(","):
                line = "no function of it ran" if name in unused else "selected by --python-only"
                self.assertRegex(err, r"%s: 1 \(%s\)" % (line, re.escape(name)))

    def test_a_name_that_only_another_process_has(self):
        program = self.write("starts.py", """
            import os, subprocess, sys
            subprocess.run([sys.executable, "-c", "import wanted.part"], check=True)
            os._exit(0)
            """)
        _, _, err = self.record(program, options=("--python-only", "wanted,wantd"))
        self.assertEqual(re.findall(r"--python-only: no function of '(.*?)' ran;", err), ["wantd"])

    def test_a_list_that_is_none(self):
        for text in ("", "a,", "a b", "a/b", "a..b"):
            done = subprocess.run([COMMAND, "record", "--python-only", text, "--", "true"], cwd=self.folder,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual(done.returncode, 125, text)
            self.assertIn("--python-only", done.stderr)


class Startup(Plain):
    def test_another_sitecustomize_runs(self):
        self.write("site/sitecustomize.py", "import sys\nsys.was_here = 1\n")
        program = self.write("shows.py", "import sys, sitecustomize\nprint(sys.was_here, sitecustomize.__file__)\n")
        out, events, _ = self.record(program, env={"PYTHONPATH": self.path("site")})
        self.assertEqual(out.split(), ["1", self.path("site/sitecustomize.py")])
        self.assertTrue(self.rows(events, "shows.py"))

    def test_a_sitecustomize_that_fails(self):
        self.write("site/sitecustomize.py", "raise ValueError('expected')\n")
        _, events, err = self.record(PROGRAM, env={"PYTHONPATH": self.path("site")})
        self.assertIn("expected", err)
        self.assertTrue(self.rows(events))

    def test_python_that_ignores_the_environment_is_named(self):
        for option in ("-I", "-E", "-S"):
            _, events, err = self.record(option, PROGRAM)
            self.assertFalse(self.rows(events))
            self.assertIn("runs Python, and it did not import ckineto's package", err)

        busy = "import time\nwhile time.process_time() < 0.5: pass"
        for options in (("--python", "--preload"), ("--preload",)):
            _, _, err = self.record("-I", "-c", busy, options=options)
            (self.assertIn if len(options) > 1 else self.assertNotIn)("did not import ckineto's package", err)
        _, _, err = self.record("-c", busy, options=("--python", "--preload"))
        self.assertNotIn("did not import ckineto's package", err)

    def test_without_the_option_nothing_is_recorded(self):
        _, events, err = self.record(PROGRAM, options=())
        self.assertFalse(self.rows(events))
        self.assertNotIn("runs Python", err)

    def test_without_ctypes(self):
        self.write("broken/ctypes/__init__.py", "raise ImportError('expected: built without libffi')\n")
        program = self.write("shows.py", "def f(): pass\nf()\n")
        _, events, _ = self.record(program, env={"PYTHONPATH": self.path("broken")})
        self.assertEqual(len(self.rows(events, "shows.py")), 2)


def find_versions():
    found = {}
    for minor in range(9, 20):
        candidates = [shutil.which("python3.%d%s" % (minor, suffix)) for suffix in ("", "t")]
        candidates += glob.glob(os.path.expanduser("~/.pyenv/versions/3.%d.*/bin/python3" % minor))
        for path in filter(None, candidates):
            done = subprocess.run([path, "-c", "import sys; print(sys.abiflags)"], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, check=False)
            if done.returncode == 0:
                found[minor, done.stdout] = path
    return list(found.values())


def main():
    if not os.path.exists(COMMAND):
        sys.exit("CKINETO does not name the command")
    native = os.environ.get("CKINETO_STACKS_DIR")
    if native and not os.path.exists(os.path.join(native, "stacks-profile.so")):
        sys.stdout.write("skipped: the headers of Python are not installed (Debian: python3-dev)\n")
        sys.exit(77)
    pythons = [a for a in sys.argv[1:] if not a.startswith("-") and os.path.exists(a)] or [sys.executable]
    arguments = [a for a in sys.argv if a not in pythons and a != "--all"]
    pythons = find_versions() if "--all" in sys.argv else pythons
    failed = False
    for path in pythons:
        PYTHON["path"] = path
        sys.stderr.write("%s\n" % path)
        failed |= not unittest.main(argv=arguments, exit=False).result.wasSuccessful()
    sys.exit(failed)


if __name__ == "__main__":
    main()
