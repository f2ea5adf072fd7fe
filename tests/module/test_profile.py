"""ckineto.profile does with a schedule, callbacks and results what torch.profiler.profile does."""
import json
import os
import subprocess
import sys
import threading
import warnings

import support
import ckineto
from ckineto import ProfilerAction, ProfilerActivity


def work(device=None):
    with ckineto.record_function("forward"):
        with ckineto.range("layer"):
            if device is not None:
                device.launch("gemm")
    if device is not None:
        device.synchronize()


class Schedules(support.TestCase):
    def test_actions_are_those_of_pytorch(self):
        given = ckineto.schedule(skip_first=2, wait=1, warmup=1, active=2, repeat=2)
        n, w, r, s = (ProfilerAction.NONE, ProfilerAction.WARMUP, ProfilerAction.RECORD,
                      ProfilerAction.RECORD_AND_SAVE)
        self.assertEqual([given(step) for step in range(12)], [n, n, n, w, r, s, n, w, r, s, n, n])
        for wrong in ({"active": 0}, {"warmup": -1}):
            with self.assertRaises(ValueError):
                ckineto.schedule(**dict(dict(wait=0, warmup=1, active=1), **wrong))

    def test_cycles_are_handed_over(self):
        seen = []

        def ready(prof):
            seen.append((prof.step_num, [e.name for e in prof.events()], prof.get_trace_id()))

        with ckineto.profile(schedule=ckineto.schedule(wait=1, warmup=1, active=2, repeat=2),
                             on_trace_ready=ready) as prof:
            for _ in range(10):
                work()
                prof.step()
        self.assertEqual([step for step, _, _ in seen], [4, 8])
        self.assertEqual(seen[0][1], ["ProfilerStep*", "forward", "layer"] * 2)
        self.assertEqual(len({trace_id for _, _, trace_id in seen}), 2)

    def test_any_function_may_be_the_schedule(self):
        actions = [ProfilerAction.NONE, ProfilerAction.WARMUP, ProfilerAction.RECORD_AND_SAVE, 0, 0]
        seen = []
        with ckineto.profile(schedule=lambda step: actions[step], on_trace_ready=seen.append) as prof:
            for _ in range(4):
                work()
                prof.step()
        self.assertEqual(seen, [prof])
        self.assertEqual(len(prof.events()), 3)

    def test_without_a_schedule_all_is_one_cycle(self):
        with ckineto.profile() as prof:
            for _ in range(3):
                work()
                prof.step()
        self.assertEqual([e.name for e in prof.events()], ["forward", "layer"] * 3)
        self.assertEqual((prof.step_num, prof.current_action), (3, ProfilerAction.NONE))

    def test_cycles_are_kept_if_asked_for(self):
        with ckineto.profile(schedule=ckineto.schedule(wait=0, warmup=1, active=1, repeat=3),
                             acc_events=True) as prof:
            for _ in range(6):
                work()
                prof.step()
        counts = {a.key: a.count for a in prof.key_averages()}
        self.assertEqual(counts, {"ProfilerStep*": 3, "forward": 3, "layer": 3})
        events = prof.events()
        self.assertEqual([e.time_range.start for e in events],
                         sorted(e.time_range.start for e in events))
        self.assertEqual(support.names(prof.trace).count("layer"), 1)

    def test_exceptions_of_callbacks_arrive(self):
        def fail(_):
            raise KeyError("mine")

        with self.assertRaises(KeyError):
            with ckineto.profile(on_trace_ready=fail):
                work()
        with self.assertRaises(KeyError):
            with ckineto.profile(schedule=fail):
                pass
        with self.assertRaises(KeyError):
            with ckineto.profile(custom_trace_id_callback=lambda: fail(0)):
                pass
        with ckineto.profile() as prof:  # no state is left over
            work()
        self.assertEqual(len(prof.events()), 2)

    def test_wrong_order_is_an_error(self):
        prof = ckineto.profile()
        for call in (prof.step, prof.stop, prof.events, lambda: prof.export_chrome_trace("x")):
            with self.assertRaises(ckineto.StateError):
                call()
        self.assertIsNone(prof.trace)
        prof.start()
        with self.assertRaises(ckineto.StateError):
            prof.start()
        prof.stop()
        self.assertEqual(len(prof.events()), 0)


class Options(support.TestCase):
    def test_activities(self):
        class Theirs:
            name = "CPU"

        for activities in ([ProfilerActivity.CPU], ["CPU"], [Theirs()]):
            self.assertEqual(ckineto.profile(activities=activities).activities, {ProfilerActivity.CPU})
        self.assertEqual(len(ckineto.profile().activities), 6)
        with self.assertRaises(AssertionError):
            ckineto.profile(activities=[])
        with self.assertRaisesRegex(ckineto.ArgumentError, "GPU"):
            ckineto.profile(activities=["GPU"])
        with self.assertRaises(ckineto.UnsupportedError):
            ckineto.profile(activities=[{ProfilerActivity.CUDA: ["GPU_MEMCPY"]}])

    def test_use_cuda_is_deprecated(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            prof = ckineto.profile(activities=[ProfilerActivity.CPU], use_cuda=True)
        self.assertEqual(prof.activities, {ProfilerActivity.CPU, ProfilerActivity.CUDA})
        self.assertTrue(issubclass(caught[0].category, FutureWarning))

    def test_experimental_configs_of_both_kinds(self):
        class Pickled:
            """PyTorch's shows its values to pickle only, by position."""

            def __getstate__(self):
                return ([], False, True, [], False, True)

        from ckineto.profiling import _take_experimental

        self.assertEqual(_take_experimental(Pickled())["adjust_profiler_step"], True)
        given = ckineto.ExperimentalConfig(verbose=True, custom_profiler_config="cuda.sync=off")
        self.assertEqual(_take_experimental(given)["custom_profiler_config"], "cuda.sync=off")
        with ckineto.profile(experimental_config=given):
            work()
        with self.assertRaises(TypeError):
            ckineto.ExperimentalConfig(nonsense=1)

    def test_trace_ids(self):
        prof = ckineto.profile(custom_trace_id_callback=lambda: "mine")
        self.assertIsNone(prof.get_trace_id())
        with prof:
            self.assertEqual(prof.get_trace_id(), "mine")
        self.assertEqual(prof.trace.metadata["trace_id"], "mine")
        prof.set_custom_trace_id_callback(None)
        with prof:
            self.assertRegex(prof.get_trace_id(), "^[0-9A-F]{32}$")

    def test_metadata(self):
        prof = ckineto.profile(record_shapes=True)
        prof.preset_metadata_json("preset", "[1, 2]")
        with prof:
            prof.add_metadata("text", 'a "quoted" one')
            prof.add_metadata_json("json", '{"a": 1}')
            with self.assertRaises(ckineto.ArgumentError):
                prof.add_metadata_json("bad", "{")
        header = prof.trace.metadata
        self.assertEqual((header["preset"], header["text"], header["json"]),
                         ([1, 2], 'a "quoted" one', {"a": 1}))

    def test_observers_of_others_run_in_recorded_steps(self):
        class Observer:
            calls = []

            def start(self):
                self.calls.append("start")

            def stop(self):
                self.calls.append("stop")

        with ckineto.profile(schedule=ckineto.schedule(wait=1, warmup=1, active=2, repeat=2),
                             execution_trace_observer=Observer()) as prof:
            for _ in range(9):
                prof.step()
        self.assertEqual(Observer.calls, ["start", "stop"] * 2)

    def test_loss_is_a_warning(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with ckineto.profile(buffer="1M") as prof:
                for number in range(100000):
                    ckineto.instant("n", number=number)
        self.assertIn("%d events are missing" % prof.trace.lost, str(caught[0].message))

    def test_what_happens_in_a_pause_is_not_there(self):
        prof = ckineto.profile()
        prof.toggle_collection_dynamic(False, [ProfilerActivity.CPU])  # nothing is recorded: nothing happens
        with prof:
            ckineto.instant("before")
            prof.toggle_collection_dynamic(False, [ProfilerActivity.CPU])
            ckineto.instant("in the pause")
            prof.toggle_collection_dynamic(True, [ProfilerActivity.CPU])
            ckineto.instant("after")
            with self.assertRaises(AssertionError):  # as in PyTorch
                prof.toggle_collection_dynamic(False, [])
        names = {activity.name for activity in prof.trace}
        self.assertEqual(names & {"before", "in the pause", "after"}, {"before", "after"})


class Results(support.TestCase):
    @classmethod
    def setUpClass(cls):
        device = support.Device()
        with ckineto.profile(record_shapes=True) as prof:
            for _ in range(4):
                work(device)
            other = threading.Thread(target=work)
            other.start()
            other.join()
        cls.prof = prof

    def test_events_are_a_tree_with_kernels(self):
        events = self.prof.events()
        layer = next(e for e in events if e.name == "layer")
        self.assertEqual(layer.cpu_parent.name, "forward")
        self.assertEqual([c.name for c in layer.cpu_children], ["simLaunch"])
        self.assertEqual([k.name for k in layer.kernels], ["gemm"])
        self.assertEqual(layer.kernels[0].duration, layer.device_time_total)
        self.assertEqual(layer.cpu_parent.cpu_children[0], layer)
        self.assertGreater(layer.time_range.end, layer.time_range.start)
        self.assertAlmostEqual(layer.time_range.elapsed_us(), layer.cpu_time_total)
        self.assertAlmostEqual(layer.self_cpu_time_total,
                               layer.cpu_time_total - sum(c.cpu_time_total for c in layer.cpu_children))
        self.assertEqual((layer.count, layer.is_async, layer.is_user_annotation), (1, False, True))
        self.assertEqual((layer.sequence_nr, layer.input_shapes, layer.stack), (-1, [], []))
        kernel = next(e for e in events if e.name == "gemm")
        self.assertIs(kernel.device_type, ckineto.DeviceType.PrivateUse1)
        self.assertEqual(len({e.thread for e in events if e.name == "forward"
                              and e.device_type is ckineto.DeviceType.CPU}), 2)
        self.assertIn("FunctionEvent", repr(layer))

    def test_averages_are_sums_of_events(self):
        events, averages = self.prof.events(), self.prof.key_averages()
        host = next(a for a in averages if a.key == "forward" and not a._view.flags & 1)
        mine = [e for e in events if e.name == "forward" and not e._is_device]
        self.assertEqual(host.count, len(mine))
        for name in ("cpu_time_total", "self_cpu_time_total", "device_time_total"):
            self.assertAlmostEqual(getattr(host, name), sum(getattr(e, name) for e in mine))
        self.assertAlmostEqual(host.cpu_time, host.cpu_time_total / host.count)
        self.assertEqual(host.cuda_time_total, host.device_time_total)
        self.assertEqual(averages.value(host._index, "cpu_time_total"), host.cpu_time_total)
        total = averages.total_average()
        self.assertEqual((total.key, total.count), ("Total", len(events)))
        self.assertAlmostEqual(self.prof.self_cpu_time_total, sum(e.self_cpu_time_total for e in events))

    def test_tables(self):
        averages = self.prof.key_averages()
        table = averages.table(sort_by="cuda_time_total", row_limit=3, header="A header",
                               max_name_column_width=20, time_unit="us")
        self.assertIn("A header", table)
        self.assertIn("gemm", table)
        self.assertLess(len(averages.table(row_limit=1).splitlines()), len(table.splitlines()))
        with self.assertRaises(ckineto.ArgumentError):
            averages.table(sort_by="nonsense")
        with self.assertRaises(ckineto.ArgumentError):
            averages.table(time_unit="years")
        self.assertIn("layer", self.prof.events().table())
        self.assertIn("layer", self.prof.profiler.table())
        self.assertIn("layer", averages.to_csv())
        self.assertEqual(len(averages), len(averages[:]))

    def test_the_command_says_the_same_of_the_file(self):
        path = self.path("trace.json")
        self.prof.export_chrome_trace(path)
        output = subprocess.run([sys.executable, "-B", "-m", "ckineto", "table", "--json", path], check=True,
                              stdout=subprocess.PIPE).stdout
        theirs = {(row["name"], row["device"]): row["count"] for row in json.loads(output)["rows"]}
        mine = {(row["name"], row["device"]): row["count"]
                for row in self.prof.key_averages().to_dicts()}
        self.assertEqual(theirs, mine)

    def test_files(self):
        for name in ("a.json", "a.json.gz", "a.pftrace", "without_ending"):
            self.prof.export_chrome_trace(self.path(name))
            self.assertGreater(os.path.getsize(self.path(name)), 100)
        self.assertEqual(len(ckineto.open(self.path("without_ending"))), len(self.prof.trace))
        with self.assertRaisesRegex(ckineto.StateError, "with_stack=True"):
            self.prof.export_stacks(self.path("stacks.txt"))
        with self.assertRaisesRegex(ckineto.StateError, "profile_memory=True"):
            self.prof.export_memory_timeline(self.path("memory.html"))

    def test_tensorboard_gets_a_file_for_each_cycle(self):
        handler = ckineto.tensorboard_trace_handler(self.path("log/deep"), "worker", use_gzip=True)
        with ckineto.profile(schedule=ckineto.schedule(wait=0, warmup=1, active=1, repeat=2),
                             on_trace_ready=handler) as prof:
            for _ in range(4):
                work()
                prof.step()
        found = os.listdir(self.path("log/deep"))
        self.assertEqual(len(found), 2)
        self.assertTrue(all(n.startswith("worker.") and n.endswith(".pt.trace.json.gz") for n in found))

    def test_the_property_profiler(self):
        results = self.prof.profiler.kineto_results
        events = results.events()
        self.assertEqual(len(events), len(self.prof.trace))
        event = next(e for e in events if e.name() == "layer")
        self.assertGreater(event.start_ns(), results.trace_start_ns())
        self.assertTrue(event.is_user_annotation())
        with self.assertRaises(AttributeError):
            event.nonsense()
        self.assertEqual(len(self.prof.profiler.function_events), len(self.prof.events()))

    def test_results_outlive_the_next_cycle(self):
        with ckineto.profile(schedule=ckineto.schedule(wait=0, warmup=1, active=1, repeat=2)) as prof:
            work()
            prof.step()
            work()
            prof.step()
            first, averages = prof.events(), prof.key_averages()
            for _ in range(2):
                work()
                prof.step()
        self.assertNotEqual(first._handle, prof.events()._handle)
        self.assertEqual([e.name for e in first], ["ProfilerStep*", "forward", "layer"])
        prof.close()
        self.assertEqual(len(averages.table().splitlines()) > 3, True)


def outer():
    with ckineto.range("marked"):
        pass


class Stacks(support.TestCase):
    """Functions of Python, by the tracer of ckineto_attach; native stacks where that cannot be."""

    def test_with_stack(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            prof = ckineto.profile(with_stack=True)
        if caught:
            self.assertIn("functions of Python are not recorded", str(caught[0].message))
            self.skipTest(str(caught[0].message))
        with prof:
            outer()
        events = prof.events()
        functions = [e.name for e in events if e.is_python_function]
        self.assertTrue(any(name.endswith(": outer") for name in functions), functions)
        self.assertFalse([name for name in functions if "importlib" in name or "ckineto/" in name])
        marked = next(e for e in events if e.name == "marked")
        self.assertTrue(marked.stack[0].endswith(": outer"), marked.stack)
        grouped = next(a for a in prof.key_averages(group_by_stack_n=1) if a.key == "marked")
        self.assertEqual(grouped.stack, marked.stack[:1])
        prof.export_stacks(self.path("stacks.txt"))
        self.assertTrue(os.path.exists(self.path("stacks.txt")))
        self.assertEqual(prof.trace.metadata["with_stack"], 1)

    def test_recordings(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with ckineto.record(python_functions=True) as recording:
                outer()
        names = support.names(recording.trace)
        if len(names) == 1:
            self.skipTest("functions of Python cannot be recorded here")
        self.assertTrue(any(name.endswith(": outer") for name in names), names)

    def test_nothing_stays_switched_on(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            prof = ckineto.profile(with_stack=True, schedule=ckineto.schedule(wait=1, warmup=1, active=1))
        with prof:
            for _ in range(4):
                outer()
                prof.step()
        with ckineto.record() as recording:
            outer()
        self.assertEqual(support.names(recording.trace), ["marked"])


class Example(support.TestCase):
    def test_the_example_in_c_has_the_same_columns(self):
        """The table is the C library's: the heading that the C example prints is the one of ours."""
        example = os.environ.get("CKINETO_EXAMPLE", "")
        if not os.path.exists(example):
            self.skipTest("the example is not built")
        subprocess.run([example, self.path("example.json")], check=True, cwd=self.folder,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found = [n for n in os.listdir(self.folder) if n.endswith(".json")]
        trace = ckineto.open(self.path(found[0]))
        output = subprocess.run([sys.executable, "-B", "-m", "ckineto", "table", self.path(found[0])],
                              check=True, stdout=subprocess.PIPE).stdout.decode()
        mine = trace.key_averages().table()
        self.assertEqual(output.splitlines()[1], mine.splitlines()[1])
        self.assertEqual({a.key for a in trace.key_averages()},
                         {line.split("  ")[0].strip() or line.strip().split("  ")[0]
                          for line in mine.splitlines()[3:3 + len(trace.key_averages())]})


if __name__ == "__main__":
    support.main()
