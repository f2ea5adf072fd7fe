"""Python functions in traces: nesting, exceptions, generators, threads, windows, other tools.

    CKINETO_LIBDIR=build/release/lib python3 tests/python/test_stacks.py
"""
import gc
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import stacks_session  # noqa: E402
from stacks_programs import Program, compile_plain, expected_tree  # noqa: E402
from stacks_session import (Range, Session, build_stacks, find, short, stacks, tree,  # noqa: E402
                            tree_by_time)

HAS_MONITORING = sys.version_info >= (3, 12)
HAS_GIL = "t" not in sys.abiflags


def leaf():
    pass


def fall(n):
    if n:
        return fall(n - 1)
    return None


def fail():
    raise ValueError("expected")


def rescue():
    try:
        middle()
    except ValueError:
        leaf()


def middle():
    fail()


class Recorded(unittest.TestCase):
    """Each test leaves nothing installed."""

    maxDiff = None

    def tearDown(self):
        while stacks.status().get("users"):
            stacks.stop()
        Session.discard_all()

    def record(self, function, *arguments, **options):
        """A session in which the function is called once."""
        session = Session()
        self.assertTrue(stacks.start(**options), stacks.reason())
        function(*arguments)
        stacks.stop()
        return session.end()

    def below(self, session, name):
        """What is below the first row of this name; the same by ids and by time."""
        by_id, by_time = find(tree(session.rows()), name), find(tree_by_time(session.rows()), name)
        self.assertEqual(by_id, by_time)
        self.assertIsNotNone(by_id, "%s has no row" % name)
        return by_id[1]


class Functions(Recorded):
    def test_calls_nest(self):
        session = self.record(fall, 3)
        self.assertEqual(self.below(session, "fall"), [["fall", [["fall", [["fall", []]]]]]])

    def test_names_are_those_of_pytorch(self):
        session = self.record(leaf)
        line = leaf.__code__.co_firstlineno
        self.assertIn("test_stacks.py(%d): leaf" % line, [e["name"] for e in session.rows()])

    def test_a_root_has_no_parent_and_others_have_one(self):
        rows = self.record(leaf).rows()
        ids = [e["args"]["Python id"] for e in rows]
        self.assertEqual(len(set(ids)), len(ids))
        self.assertEqual([e["args"]["Python parent id"] for e in rows].count(None), 1)
        self.assertTrue(set(e["args"]["Python parent id"] for e in rows) - {None} <= set(ids))

    def test_what_was_running_at_start_is_there_from_start_to_stop(self):
        session = self.record(leaf)
        rows = {short(e["name"]): e for e in session.rows()}
        outer, record, inner = rows["<module>"], rows["record"], rows["leaf"]
        self.assertEqual((outer["start"], outer["end"]), (record["start"], record["end"]))
        self.assertLess(outer["start"], inner["start"])
        self.assertGreater(outer["end"], inner["end"])

    def test_own_functions_have_no_rows(self):
        names = [e["name"] for e in self.record(leaf).rows()]
        self.assertFalse([n for n in names if "ckineto_attach" in n])

    def test_exceptions_end_what_they_leave(self):
        session = self.record(rescue)
        self.assertEqual(self.below(session, "rescue"), [["middle", [["fail", []]]], ["leaf", []]])

    def test_deep_recursion(self):
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(limit + 4000)
        try:
            session = self.record(fall, 3000)
        finally:
            sys.setrecursionlimit(limit)
        self.assertEqual(session.names().count("fall"), 3001)
        depth, node = 0, find(tree(session.rows()), "fall")
        while node:
            depth, node = depth + 1, node[1][0] if node[1] else None
        self.assertEqual(depth, 3001)

    @unittest.skipUnless(HAS_MONITORING, "each call takes room of the stack")
    def test_what_is_too_deep_is_counted(self):
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(80000)
        try:
            session = self.record(lambda: fall(70000) or leaf())
        finally:
            sys.setrecursionlimit(limit)
        lost = session.ledger("nested too deep")[0]["count"]
        self.assertEqual(session.names().count("fall") + lost, 70001)
        self.assertEqual(session.names().count("leaf"), 1)

    def test_recursion_until_the_interpreter_refuses(self):
        def endless():
            endless()

        def catch():
            try:
                endless()
            except RecursionError:
                leaf()

        session = self.record(catch)
        self.assertEqual(find(tree(session.rows()), "catch")[1][-1], ["leaf", []])

    def test_programs_by_chance(self):
        seeds = range(int(os.environ.get("CKINETO_TEST_PROGRAMS", "300")))
        programs = [Program(seed) for seed in seeds]
        expected = [expected_tree(program, seed) for seed, program in enumerate(programs)]
        compiled = [compile_plain(program) for program in programs]

        def run_program(seed):
            function, stop = compiled[seed]
            try:
                function(seed)
            except stop:
                pass

        def run_programs():
            for seed in seeds:
                run_program(seed)

        below = self.below(self.record(run_programs), "run_programs")
        self.assertEqual(len(below), len(seeds))
        for seed, (_, made) in enumerate(below):
            with self.subTest(seed=seed):
                self.assertEqual(made, expected[seed], programs[seed].source(False))


class Generators(Recorded):
    def test_a_suspended_generator_is_not_running(self):
        def numbers():
            yield 1
            leaf()
            yield 2

        def use():
            g = numbers()
            next(g)
            fall(0)
            next(g)
            del g

        below = self.below(self.record(use), "use")
        self.assertEqual(below[:3], [["numbers", []], ["fall", []], ["numbers", [["leaf", []]]]])

    def test_coroutines(self):
        class Pause:
            def __await__(self):
                yield "pause"

        async def inner():
            await Pause()
            leaf()

        async def outer():
            await inner()

        def use():
            work = outer()
            work.send(None)
            fall(0)
            try:
                work.send(None)
            except StopIteration:
                pass

        self.assertEqual(self.below(self.record(use), "use"), [
            ["outer", [["inner", [["__await__", []]]]]],
            ["fall", []],
            ["outer", [["inner", [["__await__", []], ["leaf", []]]]]]])

    def test_an_event_loop(self):
        import asyncio

        async def step(n):
            await asyncio.sleep(0)
            leaf()
            return n

        async def everything():
            return await asyncio.gather(*(step(n) for n in range(5)))

        names = self.record(lambda: asyncio.run(everything())).names()
        self.assertEqual(names.count("leaf"), 5)
        self.assertEqual(names.count("step"), 10)

    def test_asynchronous_generators(self):
        async def numbers():
            for n in range(3):
                yield n

        async def use():
            async for n in numbers():
                fall(0)

        def run_use():
            try:
                use().send(None)
            except StopIteration:
                pass

        below = self.below(self.record(run_use), "use")
        self.assertEqual(below, [["numbers", []], ["fall", []]] * 3 + [["numbers", []]])


class Threads(Recorded):
    def test_a_thread_of_the_session(self):
        tids = []

        def work():
            tids.append(threading.get_native_id())
            fall(2)

        def start_thread():
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()

        session = self.record(start_thread)
        found = find(tree(session.rows(tids[0])), "work")
        self.assertEqual(found[1], [["fall", [["fall", [["fall", []]]]]]])

    def test_a_thread_without_the_module_threading(self):
        import _thread

        tids, done = [], threading.Lock()

        def work():
            tids.append(threading.get_native_id())
            fall(1)
            done.release()

        def start_thread():
            done.acquire()
            _thread.start_new_thread(work, ())
            done.acquire()

        session = self.record(start_thread)
        self.assertEqual(find(tree(session.rows(tids[0])), "work")[1], [["fall", [["fall", []]]]])

    def test_a_thread_that_was_there_before(self):
        begin, end, tids = threading.Semaphore(0), threading.Semaphore(0), []

        def serve():
            tids.append(threading.get_native_id())
            end.release()
            while begin.acquire() and len(tids) == 1:
                fall(1)
                end.release()

        thread = threading.Thread(target=serve)
        thread.start()
        end.acquire()

        def use_thread():
            begin.release()
            end.acquire()

        try:
            session = self.record(use_thread)
        finally:
            tids.append(0)
            begin.release()
            thread.join()
        rows = session.rows(tids[0])
        serving = find(tree(rows), "serve")
        self.assertIn(["fall", [["fall", []]]], serving[1])
        self.assertEqual(find(tree_by_time(rows), "serve"), serving)
        first = min(e["start"] for e in session.rows())
        self.assertEqual([e["start"] for e in rows if short(e["name"]) == "serve"], [first])

    @unittest.skipUnless(HAS_GIL, "without the GIL, no thread reads the frames of another")
    def test_a_thread_that_waits_all_the_time(self):
        for ends_first in ("stacks", "session"):
            lock, tids, ready = threading.Lock(), [], threading.Event()
            lock.acquire()

            def sleep_long():
                tids.append(threading.get_native_id())
                ready.set()
                lock.acquire()

            thread = threading.Thread(target=sleep_long)
            thread.start()
            ready.wait()
            session = Session()
            self.assertTrue(stacks.start(), stacks.reason())
            leaf()
            if ends_first == "stacks":
                stacks.stop()
                session.end()
            else:
                session.end()
                stacks.stop()
            lock.release()
            thread.join()
            with self.subTest(ends_first):
                self.assertEqual(session.names(tids[0])[-1], "sleep_long")
                rows = session.rows(tids[0])
                self.assertEqual(len({(e["start"], e["end"]) for e in rows}), 1)

    def test_many_threads(self):
        def work():
            for _ in range(50):
                rescue()

        def start_threads():
            threads = [threading.Thread(target=work) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        session = self.record(start_threads)
        self.assertEqual(session.names().count("fail"), 8 * 50)
        for tid in {e["tid"] for e in session.rows() if short(e["name"]) == "work"}:
            self.assertEqual(find(tree(session.rows(tid)), "work")[1],
                             [["rescue", [["middle", [["fail", []]]], ["leaf", []]]]] * 50)


    def check_nesting(self, rows):
        """Rows of a thread contain each other or are apart, and parents contain their children."""
        open_rows, by_id = [], {row["args"]["Python id"]: row for row in rows}
        self.assertEqual(len(by_id), len(rows))
        for row in rows:
            while open_rows and open_rows[-1]["end"] <= row["start"]:
                open_rows.pop()
            if open_rows:
                self.assertLessEqual(row["end"], open_rows[-1]["end"])
            open_rows.append(row)
            parent = by_id.get(row["args"]["Python parent id"], row)
            self.assertLessEqual(parent["start"], row["start"])
            self.assertLessEqual(row["end"], parent["end"])

    def test_sessions_begin_and_end_while_threads_run(self):
        goes_on = [True]

        def work(seed):
            functions = [compile_plain(Program(seed + n))[0] for n in range(20)]
            while goes_on:
                for n, function in enumerate(functions):
                    try:
                        function(n)
                    except Exception:
                        pass
                    time.sleep(0.0002)

        threads = [threading.Thread(target=work, args=(100 * n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        try:
            self.assertTrue(stacks.start(), stacks.reason())
            for turn in range(int(os.environ.get("CKINETO_TEST_TURNS", "10"))):
                session = Session(megabytes=1)
                for _ in range(200 + turn):
                    rescue()
                if turn % 3 == 2:
                    stacks.stop()
                    leaf()
                    self.assertTrue(stacks.start(), stacks.reason())
                session.end()
                self.assertGreater(len(session.rows()), 200)
                for tid in {row["tid"] for row in session.rows()}:
                    self.check_nesting(session.rows(tid))
        finally:
            goes_on.clear()
            for thread in threads:
                thread.join()


class Windows(Recorded):
    def test_start_before_the_session(self):
        self.assertTrue(stacks.start(), stacks.reason())
        leaf()
        with Session() as session:
            fall(1)
        stacks.stop()
        names = session.names()
        self.assertNotIn("leaf", names)
        self.assertEqual(names.count("fall"), 2)
        self.assertIn("test_start_before_the_session", names)

    def test_the_session_ends_while_functions_run(self):
        session = Session()
        self.assertTrue(stacks.start(), stacks.reason())

        def end_session():
            session.end()

        end_session()
        stacks.stop()
        rows = {short(e["name"]): e for e in session.rows()}
        self.assertIn("end_session", rows)
        outer = rows["test_the_session_ends_while_functions_run"]
        self.assertEqual(rows["end_session"]["end"], outer["end"])

    def test_sessions_that_overlap(self):
        outer = Session()
        self.assertTrue(stacks.start(), stacks.reason())
        leaf()
        inner = Session()
        fall(0)
        inner.end()
        fall(0)
        stacks.stop()
        outer.end()
        self.assertEqual((inner.names().count("fall"), outer.names().count("fall")), (1, 2))
        for session in (inner, outer):
            self.assertIn("test_sessions_that_overlap", session.names())

    def test_two_sessions_one_after_the_other(self):
        self.assertTrue(stacks.start(), stacks.reason())
        for count in (1, 2):
            with Session() as session:
                fall(count)
            self.assertEqual(session.names().count("fall"), count + 1)
            self.assertEqual(session.names().count("test_two_sessions_one_after_the_other"), 1)
        stacks.stop()

    def test_starts_are_counted(self):
        session = Session()
        self.assertTrue(stacks.start(), stacks.reason())
        self.assertTrue(stacks.start(), stacks.reason())
        stacks.stop()
        leaf()
        stacks.stop()
        fall(0)
        stacks.stop()
        session.end()
        self.assertIn("leaf", session.names())
        self.assertNotIn("fall", session.names())

    def test_stop_in_the_middle(self):
        session = Session()

        def inner():
            self.assertTrue(stacks.start(), stacks.reason())
            leaf()
            stacks.stop()
            fall(0)

        inner()
        session.end()
        rows = {short(e["name"]): e for e in session.rows()}
        self.assertNotIn("fall", rows)
        self.assertLessEqual(rows["leaf"]["end"], rows["inner"]["end"])

    def test_start_and_stop_in_different_functions(self):
        session = Session()

        def begin():
            stacks.start()

        def end():
            stacks.stop()

        def work():
            begin()
            leaf()
            end()

        work()
        session.end()
        self.assertEqual(find(tree(session.rows()), "work")[1],
                         [["begin", []], ["leaf", []], ["end", []]])

    def test_start_in_a_call_that_the_interpreter_makes_by_itself(self):
        import ctypes

        add = ctypes.pythonapi.Py_AddPendingCall
        call = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda _: stacks.start() and 0)

        def work():
            for _ in range(100):
                fall(0)

        for _ in range(3):  # then code may have been instrumented before
            session = Session()
            add(call, None)
            work()
            stacks.stop()
            session.end()
            names = session.names()
            self.assertEqual(names.count("work"), 1, names)
            self.assertEqual(set(str(n) for n in find(tree(session.rows()), "work")[1]),
                             {"['fall', []]"})

    def test_nothing_is_recorded_without_a_session(self):
        self.assertTrue(stacks.start(), stacks.reason())
        fall(3)
        stacks.stop()
        with Session() as session:
            leaf()
        self.assertEqual(session.rows(), [])

    def test_a_session_of_other_kinds(self):
        session = Session(kinds=stacks_session.CPU_OP)
        self.assertTrue(stacks.start(), stacks.reason())
        leaf()
        stacks.stop()
        self.assertEqual(session.end().rows(), [])

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_a_child_records_as_itself(self):
        session = Session()
        self.assertTrue(stacks.start(), stacks.reason())

        def fork_child():
            pid = os.fork()
            if pid == 0:
                fall(1)
                os._exit(0)
            os.waitpid(pid, 0)
            return pid

        pid = fork_child()
        stacks.stop()
        session.end()
        child = [e for e in session.rows() if e["pid"] == pid]
        parent = [e for e in session.rows() if e["pid"] == os.getpid()]
        self.assertEqual([short(e["name"]) for e in child][-2:], ["fall", "fall"])
        self.assertNotIn("fork_child", [short(e["name"]) for e in child])
        self.assertEqual([short(e["name"]) for e in parent].count("fork_child"), 1)


class Names(Recorded):
    def test_code_that_goes_leaves_its_name_to_nothing_else(self):
        def run_many():
            for n in range(3000):
                names = {}
                exec("def made%d(): pass" % n, names)
                names["made%d" % n]()

        names = self.record(run_many).names()
        self.assertEqual([n for n in names if n.startswith("made")],
                         ["made%d" % n for n in range(3000)])

    def test_code_is_not_kept_alive(self):
        import weakref

        names = {}
        exec("def gone(): pass", names)
        reference = weakref.ref(names["gone"].__code__)
        self.record(names["gone"])
        names.clear()
        gc.collect()
        self.assertIsNone(reference())

    def test_odd_names(self):
        names = {}
        source = "def größe(): pass\nf = lambda: None"
        exec(compile(source, 'odd "file"\\\udcff\n.py', "exec"), names)

        def use():
            names["größe"]()
            names["f"]()

        found = [e["name"] for e in self.record(use).rows() if e["name"].startswith("odd ")]
        self.assertEqual([short(n) for n in found], ["größe", "<lambda>"])

    def test_functions_in_c(self):
        numbers = [3, 1]

        def use():
            len(numbers)
            numbers.append(2)
            sorted(numbers, key=lambda n: fall(0) or n)
            try:
                int("x")
                numbers.index(9)
            except ValueError:
                pass

        below = self.below(self.record(use, c_functions=True), "use")
        names = [n[0] for n in below]
        self.assertIn("<built-in function len>", names)
        self.assertTrue(any(n.startswith("<built-in method append of list object at 0x")
                            for n in names), names)
        by_sorted = dict(below)["<built-in function sorted>"]
        self.assertEqual(by_sorted, [["<lambda>", [["fall", []]]]] * 3)

    def test_functions_in_c_that_raise(self):
        def use():
            try:
                [].index(9)
            except ValueError:
                leaf()

        below = self.below(self.record(use, c_functions=True), "use")
        self.assertEqual([n[0].split(" of ")[0] for n in below], ["<built-in method index", "leaf"])

    def test_collections(self):
        session = self.record(gc.collect, collections=True)
        self.assertIn("Python GC", [e["name"] for e in session.events("python_function")])
        self.assertFalse([c for c in gc.callbacks if "on_collection" in repr(c)])


def make_torch():
    """As much of PyTorch as modules need."""
    source = """
class Module:
    def _wrapped_call_impl(self, *args, **kwargs):
        return self._call_impl(*args, **kwargs)
    def _call_impl(self, *args, **kwargs):
        return self.forward(*args, **kwargs)
    __call__ = _wrapped_call_impl
"""
    module = types.ModuleType("torch.nn.modules.module")
    exec(compile(source, "torch/nn/modules/module.py", "exec"), module.__dict__)
    sys.modules["torch.nn.modules.module"] = module
    return module.Module


class Modules(Recorded):
    @classmethod
    def setUpClass(cls):
        base = make_torch()

        class Linear(base):
            def forward(self, x):
                if x is None:
                    raise ValueError("no input")
                return leaf() or x

        class Network(base):
            def forward(self, x):
                first, second = self.parts
                return first(second(first(x)))

        cls.Linear, cls.Network = Linear, Network

    def network(self):
        made = self.Network()
        made.parts = (self.Linear(), self.Linear())
        return made

    def numbers(self, rows):
        return [short(e["name"]) for e in rows if e["name"].startswith("nn.Module")]

    def test_modules_alone(self):
        session = self.record(self.network(), 1, functions=False)
        names = session.names()
        self.assertEqual([n.rsplit("_", 1)[0] for n in names],
                         ["nn.Module: Network"] + ["nn.Module: Linear"] * 3)
        self.assertEqual(names[1], names[3])
        self.assertNotEqual(names[1], names[2])
        for row in session.rows():
            self.assertEqual(int(row["name"].rsplit("_", 1)[1]), row["args"]["Python module id"])
        network = session.rows()[0]["args"]
        self.assertIsNone(network["Python parent id"])
        self.assertEqual({e["args"]["Python parent id"] for e in session.rows()[1:]},
                         {network["Python id"]})

    def test_modules_and_functions(self):
        session = self.record(self.network(), 1)
        found = find(tree(session.rows()), session.names()[session.names().index("forward") - 2])
        self.assertTrue(found[0].startswith("nn.Module: Network_"))
        self.assertEqual([n[0] for n in found[1]], ["_call_impl"])
        self.assertEqual(session.names().count("forward"), 4)

    def test_functions_without_modules(self):
        names = self.record(self.network(), 1, modules=False).names()
        self.assertEqual(names.count("_wrapped_call_impl"), 4)
        self.assertFalse([n for n in names if n.startswith("nn.Module")])

    def test_a_module_that_raises(self):
        def use():
            for _ in range(3):
                try:
                    self.network()(None)
                except ValueError:
                    pass

        rows = self.record(use, functions=False).rows()
        self.assertEqual([e["args"]["Python parent id"] is None for e in rows], [True, False] * 3)

    def test_modules_that_were_running_at_start(self):
        test = self
        session = Session()

        class Starter(type(self.network()).__mro__[1]):
            def forward(self, x):
                stacks.start(functions=False)
                test.network()(x)
                stacks.stop()

        Starter()(1)
        names = session.end().names()
        self.assertTrue(names[0].startswith("nn.Module: Starter_"), names)
        self.assertEqual(len(names), 5)

    def test_modules_nest_with_ranges_of_others(self):
        def use():
            outer = Range("outer operator", kind=0)
            self.network()(1)
            outer.end()

        session = self.record(use, functions=False)
        outer = session.events("cpu_op")[0]
        for row in session.rows():
            self.assertLessEqual(outer["start"], row["start"])
            self.assertLessEqual(row["end"], outer["end"])

    def test_a_new_module_is_not_taken_for_one_that_is_gone(self):
        def use():
            for _ in range(50):
                self.Linear()(1)

        names = self.record(use, functions=False).names()
        self.assertEqual(len(set(names)), 50)


class Others(Recorded):
    """Nothing that the program has installed is disturbed."""

    def test_an_annotation_outlives_the_function_that_opened_it(self):
        class Annotation:
            def __enter__(self):
                self.range = Range("annotation")

            def __exit__(self, *exception):
                self.range.end()

        def use():
            with Annotation():
                leaf()

        session = self.record(use)
        annotation = session.events("user_annotation")[0]
        rows = {short(e["name"]): e for e in session.rows()}
        self.assertLess(annotation["start"], rows["leaf"]["start"])
        self.assertGreater(annotation["end"], rows["__exit__"]["start"])
        self.assertLess(rows["__enter__"]["end"], rows["leaf"]["start"])

    def test_a_profile_function_of_the_program(self):
        seen = []

        def watch(frame, event, argument):
            seen.append((event, frame.f_code.co_name))

        session = Session()
        sys.setprofile(watch)
        started = stacks.start()
        leaf()
        stacks.stop()
        after = sys.getprofile()
        sys.setprofile(None)
        session.end()
        self.assertIs(after, watch)
        self.assertIn(("call", "leaf"), seen)
        self.assertIn(("return", "leaf"), seen)
        self.assertEqual(started, HAS_MONITORING)
        if not started:
            self.assertEqual(len(session.ledger("not recorded")), 1)
            self.assertIn("another profile function", session.ledger("not recorded")[0]["detail"])

    def test_a_profile_function_that_comes_later(self):
        seen = []
        session = Session()
        stacks.start()
        leaf()
        sys.setprofile(lambda frame, event, argument: seen.append(event))
        fall(0)
        sys.setprofile(None)
        stacks.stop()
        self.assertIsNone(sys.getprofile())
        self.assertIn("call", seen)
        self.assertIn("leaf", session.end().names())

    def test_a_profiler_that_puts_back_what_was_there(self):
        session = Session()
        stacks.start()
        before = sys.getprofile()
        sys.setprofile(None)
        leaf()
        sys.setprofile(before)
        fall(1)
        stacks.stop()
        self.assertIsNone(sys.getprofile())
        self.assertEqual(session.end().names().count("fall"), 2)

    def test_cprofile(self):
        import cProfile

        profile = cProfile.Profile()
        session = Session()
        stacks.start()
        profile.enable()
        fall(2)
        profile.disable()
        stacks.stop()
        session.end()
        called = {entry.code.co_name: entry.callcount for entry in profile.getstats()
                  if hasattr(entry.code, "co_name")}
        self.assertEqual(called.get("fall"), 3)

    def test_a_trace_function_of_the_program(self):
        lines = []

        def watch(frame, event, argument):
            if frame.f_code is fall.__code__:
                lines.append(event)
            return watch

        session = Session()
        before = sys.gettrace()
        sys.settrace(watch)
        stacks.start()
        fall(1)
        stacks.stop()
        after = sys.gettrace()
        sys.settrace(before)
        self.assertIs(after, watch)
        self.assertEqual((lines.count("call"), lines.count("return")), (2, 2))
        self.assertEqual(session.end().names().count("fall"), 2)

    @unittest.skipUnless(HAS_MONITORING, "no sys.monitoring")
    def test_identities_of_other_tools(self):
        monitoring = sys.monitoring
        free = [n for n in range(6) if monitoring.get_tool(n) is None]
        monitoring.use_tool_id(4, "other")
        stacks.start()
        self.assertEqual([n for n in free if monitoring.get_tool(n) == "ckineto"], [3])
        stacks.stop()
        self.assertIsNone(monitoring.get_tool(3))
        for number in set(free) - {4}:
            monitoring.use_tool_id(number, "other")
        with Session() as session:
            self.assertFalse(stacks.start())
            stacks.stop()
        for number in free:
            self.assertEqual(monitoring.get_tool(number), "other")
            monitoring.free_tool_id(number)
        self.assertIn("taken by other tools", session.ledger("not recorded")[0]["detail"])

    @unittest.skipUnless(HAS_MONITORING, "no sys.monitoring")
    def test_events_of_other_tools_go_on(self):
        monitoring, seen = sys.monitoring, []
        monitoring.use_tool_id(1, "other")
        start = monitoring.events.PY_START
        monitoring.register_callback(1, start, lambda code, offset: seen.append(code.co_name))
        monitoring.set_events(1, start)
        names = self.record(leaf).names()
        leaf()
        monitoring.set_events(1, 0)
        monitoring.register_callback(1, start, None)
        monitoring.free_tool_id(1)
        self.assertEqual(seen.count("leaf"), 2)
        self.assertIn("leaf", names)

    def test_an_exception_in_flight_stays(self):
        def use():
            try:
                fail()
            except ValueError as error:
                leaf()
                return str(error), sys.exc_info()[0]

        results = []
        self.record(lambda: results.append(use()))
        self.assertEqual(results, [("expected", ValueError)])

    def test_programs_that_forbid_profile_functions(self):
        text = ("import sys; sys.path.insert(0, %r)\n"
                "import stacks_session as s\n"
                "s.prepare()\n"
                "def forbid(event, args):\n"
                "    if event == 'sys.setprofile': raise RuntimeError('forbidden')\n"
                "sys.addaudithook(forbid)\n"
                "session = s.Session()\n"
                "print(s.stacks.start())\n"
                "s.stacks.stop()\n"
                "print(len(session.end().ledger('not recorded')))\n")
        done = subprocess.run([sys.executable, "-c", text % HERE],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.stderr, b"")
        expected = b"True\n0\n" if HAS_MONITORING else b"False\n1\n"
        self.assertEqual(done.stdout, expected)

    def test_without_the_library_the_ledger_says_so(self):
        text = ("import sys; sys.path.insert(0, %r)\n"
                "import stacks_session as s\n"
                "session = s.Session()\n"
                "print(s.stacks.start())\n"
                "s.stacks.stop()\n"
                "print(session.end().ledger('not recorded')[0]['detail'])\n")
        with tempfile.TemporaryDirectory() as cache:
            environment = dict(os.environ, CKINETO_STACKS_DIR="", CKINETO_STACKS_BUILD="0",
                               XDG_CACHE_HOME=cache)
            done = subprocess.run([sys.executable, "-c", text % HERE], env=environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.stderr, b"")
        self.assertRegex(done.stdout, rb"^False\nstacks-\S+ is not installed\n$")

    def test_the_library_is_built_at_first_use(self):
        text = ("import sys; sys.path.insert(0, %r)\n"
                "import stacks_session as s\n"
                "print(s.stacks.start(), s.stacks.reason())\n"
                "s.stacks.stop()\n")
        if not build_stacks.find_python_headers() or not shutil.which("cc"):
            self.skipTest("no compiler, or no Python.h")
        with tempfile.TemporaryDirectory() as cache:
            environment = dict(os.environ, CKINETO_STACKS_DIR="", XDG_CACHE_HOME=cache)
            environment.pop("CKINETO_STACKS_BUILD", None)
            done = subprocess.run([sys.executable, "-c", text % HERE], env=environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual((done.stdout, done.stderr), (b"True None\n", b""))
            self.assertEqual(len(os.listdir(os.path.join(cache, "ckineto", "stacks"))), 1)

    def test_a_program_that_ends_while_it_records(self):
        text = ("import sys, threading; sys.path.insert(0, %r)\n"
                "import stacks_session as s\n"
                "s.prepare()\n"
                "session = s.Session()\n"
                "s.stacks.start(c_functions=True, collections=True)\n"
                "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
                "class Last:\n"
                "    def __del__(self): len([])\n"
                "last = Last(); last.me = last\n"
                "sys.exit(3)\n")
        done = subprocess.run([sys.executable, "-c", text % HERE],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, b"", b""))


class Versions(unittest.TestCase):
    """Each Python that is supported has one library; any other gets a sentence, and nothing is loaded."""

    def test_each_version_has_a_library_or_a_reason(self):
        for major in (2, 3, 4):
            for minor in range(0, 30):
                for flags in ("", "t", "d"):
                    supported = major == 3 and minor >= (13 if flags == "t" else 9)
                    fake = types.SimpleNamespace(implementation=sys.implementation, abiflags=flags,
                                                 version_info=(major, minor, 0, "final", 0))
                    with mock.patch.object(stacks, "sys", fake):
                        if supported:
                            name = stacks._check_python()
                            self.assertEqual(name.endswith("t.so"), flags == "t")
                            self.assertEqual("monitoring" in name, minor >= 12)
                        else:
                            with self.assertRaisesRegex(stacks.StacksError, r"Python %d.%d.* is not supported" % (major, minor)):
                                stacks._check_python()

    def test_another_implementation_is_named(self):
        fake = types.SimpleNamespace(implementation=types.SimpleNamespace(name="pypy"), version_info=(3, 10))
        with mock.patch.object(stacks, "sys", fake):
            self.assertRaisesRegex(stacks.StacksError, "pypy is not supported; only CPython is", stacks._check_python)


class BesidePyTorch(unittest.TestCase):
    maxDiff = None

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_the_same_functions_below_the_same_ones_as_with_its_profiler(self):
        done = subprocess.run([sys.executable, os.path.join(HERE, "stacks_torch.py")],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode == stacks_session.SKIPPED:
            self.skipTest("this PyTorch has no profiler with stacks")
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        found = json.loads(done.stdout.decode().splitlines()[-1])
        self.assertGreater(len(found["ours"]), 100)
        self.assertTrue(any("nn.Module: Block_1" in line for line in found["ours"]))
        self.assertEqual(found["ours"], found["theirs"])


if __name__ == "__main__":
    stacks_session.prepare()
    unittest.main(verbosity=1)
