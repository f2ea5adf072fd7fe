"""Ranges, instants and counters arrive in the trace as they were given, and never disturb the program."""
import asyncio
import decimal
import pathlib
import threading

import support
import ckineto


def record(body):
    """The trace of a function."""
    with ckineto.record() as recording:
        body()
    return recording.trace


def by_name(trace, name):
    return [activity for activity in trace if activity.name == name]


class Ranges(support.TestCase):
    def test_blocks_nest(self):
        def body():
            with ckineto.range("outer"):
                for _ in range(3):
                    with ckineto.range("inner"):
                        pass

        trace = record(body)
        self.assertEqual(sorted(support.names(trace)), ["inner"] * 3 + ["outer"])
        self.assertEqual({a.parent.name for a in by_name(trace, "inner")}, {"outer"})
        self.assertEqual({a.kind for a in trace}, {"user_annotation"})

    def test_arguments_keep_their_types(self):
        given = {"whole": -5, "real": 2.5, "yes": True, "text": "größe \"x\"", "list": [1, 2],
                 "nested": {"a": [None, 1.5]}, "none": None, "long": 1 << 62}
        trace = record(lambda: ckineto.range("x", **given).__enter__().__exit__(None, None, None))
        self.assertEqual(by_name(trace, "x")[0].args, given)

    def test_other_objects_are_described(self):
        class Tensor:
            shape, dtype = (2, 3), "float32"

            def __repr__(self):
                raise AssertionError("looked into the tensor")

        class Broken:
            def __repr__(self):
                raise ValueError("no")

        def body():
            with ckineto.range("x", t=Tensor(), b=Broken(), p=pathlib.PurePosixPath("/a"), big=1 << 70,
                               d=decimal.Decimal("1.5"), deep=[Tensor()]):
                pass

        args = by_name(record(body), "x")[0].args
        self.assertEqual(args, {"t": "float32[2, 3]", "b": "<Broken>", "p": "PurePosixPath('/a')",
                                "big": str(1 << 70), "d": "Decimal('1.5')", "deep": ["float32[2, 3]"]})

    def test_any_name_and_any_argument_name_is_possible(self):
        def body():
            with ckineto.range("nul\0 in it", **{"name": 1, "self": 2, "a b": 3}):
                pass
            with ckineto.range(7):
                pass
            with ckineto.range("many", **{"k%d" % i: i for i in range(100)}):
                pass

        trace = record(body)
        self.assertEqual(by_name(trace, "nul\\0 in it")[0].args, {"name": 1, "self": 2, "a b": 3})
        self.assertEqual(len(by_name(trace, "7")), 1)
        self.assertEqual(len(by_name(trace, "many")[0].args), 64)

    def test_arguments_can_be_added(self):
        def body():
            with ckineto.range("x", a=1) as opened:
                opened.set(rows=10, note="done")

        self.assertEqual(by_name(record(body), "x")[0].args, {"a": 1, "rows": 10, "note": "done"})

    def test_exceptions_pass_and_end_the_range(self):
        def body():
            with self.assertRaises(KeyError):
                with ckineto.range("x"):
                    raise KeyError("mine")
            with ckineto.range("y"):
                pass

        trace = record(body)
        self.assertIsNone(by_name(trace, "y")[0].parent)

    def test_more_names_than_sites_keep_their_names(self):
        from ckineto import ranges

        count = ranges._MAX_SITES + 50

        def body():
            for number in range(count):
                with ckineto.range("step %d" % number, n=number):
                    pass

        trace = record(body)
        self.assertEqual({a.name: a.args for a in trace},
                         {"step %d" % n: {"n": n} for n in range(count)})

    def test_nothing_is_recorded_and_looked_at_without_a_recording(self):
        class Trap:
            def __repr__(self):
                raise AssertionError

        with ckineto.range("x", trap=Trap()) as opened:
            opened.set(trap=Trap())
        ckineto.instant("x", trap=Trap())
        self.assertFalse(ckineto.is_recording())
        self.assertEqual(len(record(lambda: None)), 0)

    def test_threads_have_their_own_ranges(self):
        def work(number):
            ckineto.set_thread_name("worker %d" % number)
            for _ in range(50):
                with ckineto.range("work", number=number):
                    with ckineto.range("part"):
                        pass

        def body():
            threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        trace = record(body)
        self.assertEqual(len(by_name(trace, "work")), 200)
        self.assertEqual({a.parent.name for a in by_name(trace, "part")}, {"work"})
        names = [t.name for t in trace.tracks if t.count]
        self.assertTrue(all(any("(worker %d)" % n in name for name in names) for n in range(4)), names)


class Decorators(support.TestCase):
    def test_functions_keep_their_names_and_results(self):
        @ckineto.trace
        def plain(x):
            """About it."""
            return x + 1

        @ckineto.trace(name="named", k=1)
        def other(x):
            return plain(x)

        @ckineto.range("range")
        def third(x):
            return other(x) if x else third(x + 1)

        self.assertEqual((plain.__name__, plain.__doc__), ("plain", "About it."))
        results = []
        trace = record(lambda: results.append(third(0)))
        self.assertEqual(results, [2])
        qualified = plain.__qualname__
        self.assertEqual(sorted(support.names(trace)), sorted(["range", "range", "named", qualified]))
        self.assertEqual(by_name(trace, "named")[0].args, {"k": 1})
        self.assertEqual(third(0), 2)

    def test_methods_and_static_methods(self):
        class Model:
            @ckineto.trace
            def forward(self, x):
                return x * 2

            @staticmethod
            @ckineto.trace
            def helper(x):
                return x

        trace = record(lambda: (Model().forward(1), Model.helper(2)))
        self.assertEqual([n.rpartition(".")[2] for n in support.names(trace)], ["forward", "helper"])
        with self.assertRaisesRegex(TypeError, "decorate functions"):
            ckineto.trace(5)

    def test_generators_are_ranges_of_their_life(self):
        @ckineto.trace(name="gen")
        def generate(n):
            got = yield 0
            for i in range(n):
                got = yield (got, i)
            return "end"

        results = []

        def body():
            made = generate(2)
            results.append(next(made))
            results.append(made.send("a"))
            with ckineto.range("between"):
                results.append(made.send("b"))
            try:
                next(made)
            except StopIteration as stop:
                results.append(stop.value)

        trace = record(body)
        self.assertEqual(results, [0, ("a", 0), ("b", 1), "end"])
        life, between = by_name(trace, "gen")[0], by_name(trace, "between")[0]
        self.assertEqual(life.form, "async")
        self.assertLessEqual(life.start_ns, between.start_ns)
        self.assertGreaterEqual(life.end_ns, between.end_ns)

    def test_coroutines_overlap(self):
        events = []

        @ckineto.trace(name="co")
        async def run(n):
            await asyncio.sleep(0)
            async with ckineto.range("inside", n=n):
                await asyncio.sleep(0)
            return n

        @ckineto.trace(name="agen")
        async def agen():
            try:
                sent = yield 1
                events.append(sent)
                yield 2
            except KeyError:
                events.append("thrown")
                yield 3

        async def both():
            made = agen()
            events.append(await made.__anext__())
            events.append(await made.asend("sent"))
            events.append(await made.athrow(KeyError()))
            await made.aclose()
            return await asyncio.gather(run(1), run(2))

        def body():
            events.append(asyncio.run(both()))

        trace = record(body)
        self.assertEqual(events, [1, "sent", 2, "thrown", 3, [1, 2]])
        self.assertEqual([a.form for a in by_name(trace, "co")], ["async"] * 2)
        self.assertEqual(sorted(a.args["n"] for a in by_name(trace, "inside")), [1, 2])
        self.assertEqual(len(by_name(trace, "agen")), 1)

    def test_record_function_has_the_interface_of_pytorch(self):
        class Future:
            def then(self, function):
                self.function = function
                return self

            def value(self):
                return 42

        future = Future()

        def body():
            with ckineto.record_function("op", "x=1") as opened:
                self.assertEqual((opened.name, opened.args), ("op", "x=1"))
                opened._call_end_callbacks_on_future(future)
                with self.assertRaises(RuntimeError):
                    opened._call_end_callbacks_on_future(future)
            self.assertEqual(future.function(future), 42)

        trace = record(body)
        self.assertEqual(sorted(a.form for a in by_name(trace, "op")), ["async", "slice"])
        self.assertEqual(by_name(trace, "op")[0].args, {"args": "x=1"})


class Moments(support.TestCase):
    def test_instants_counters_and_steps(self):
        def body():
            ckineto.instant("moment", n=3)
            ckineto.instant("bare")
            for value in (0.25, 0.5, float("inf"), 7, 1 << 64, -3):
                ckineto.counter("loss", value)
            ckineto.counter("queue", length=3, bytes=1.5)
            ckineto.counter("queue", length=1 << 70, bytes=decimal.Decimal("0.5"))
            ckineto.counter("wrong", length="many")
            for _ in range(3):
                ckineto.step()

        trace = record(body)
        self.assertEqual([(a.form, a.args) for a in trace if a.name in ("moment", "bare")],
                         [("instant", {"n": 3}), ("instant", {})])
        self.assertEqual([a.args["loss"] for a in by_name(trace, "loss")],
                         [0.25, 0.5, float("inf"), 7, float(1 << 64), -3])
        self.assertEqual([a.args for a in by_name(trace, "queue")],
                         [{"length": 3, "bytes": 1.5}, {"length": float(1 << 70), "bytes": 0.5}])
        self.assertEqual(by_name(trace, "wrong"), [])
        steps = [n for n in support.names(trace) if n.startswith("ProfilerStep#")]
        self.assertEqual(len(steps), 2)

    def test_names_and_metadata(self):
        ckineto.set_process_name("a process")
        def body():
            ckineto.add_metadata("run", {"lr": 0.1, "tags": ["a"]})
            ckineto.instant("moment")

        trace = record(body)
        self.assertEqual(trace.metadata["run"], {"lr": 0.1, "tags": ["a"]})
        self.assertEqual(trace.processes[0].name, "a process")


class Import(support.TestCase):
    def test_importing_loads_nothing_else(self):
        code = """
import sys
before = set(sys.modules)
import ckineto
new = set(sys.modules) - before
assert not {m for m in new if m.startswith(("torch", "ctypes", "json", "tempfile"))}, new
assert "range" in dir(ckineto) and callable(ckineto.profile) and ckineto.__version__
try:
    ckineto.nothing
except AttributeError as error:
    print(error)
names = {}
exec("from ckineto import *", names)
assert "trace" in names and "range" not in names and "open" not in names
"""
        self.assertEqual(support.run_python(code).strip(), "module 'ckineto' has no attribute 'nothing'")

    def test_missing_libraries_are_a_clear_error(self):
        code = """
import ckineto, ckineto_attach.library as library
library.find = lambda soname: "/nowhere/" + soname
try:
    ckineto.range
except ckineto.UnsupportedError as error:
    print(error)
"""
        self.assertIn("set CKINETO_LIBDIR to the folder", support.run_python(code))


if __name__ == "__main__":
    support.main()
