"""Recordings: windows of this process, with threads, plug-ins, pauses and snapshots."""
import gc
import os
import threading

import support
import ckineto


class Recordings(support.TestCase):
    def test_a_path_receives_the_trace(self):
        path = self.path("trace.json.gz")
        with ckineto.record(path) as recording:
            with ckineto.range("x"):
                pass
        self.assertEqual(support.names(recording.trace), ["x"])
        with ckineto.open(path) as read:
            self.assertEqual(support.names(read), ["x"])

    def test_an_exception_of_the_program_passes_and_the_trace_is_there(self):
        path = self.path("trace.json")
        with self.assertRaises(KeyError):
            with ckineto.record(path) as recording:
                with ckineto.range("x"):
                    raise KeyError("mine")
        self.assertEqual(support.names(recording.trace), ["x"])
        self.assertTrue(os.path.exists(path))

    def test_a_path_that_cannot_be_written_is_an_error_that_names_it(self):
        with self.assertRaisesRegex(ckineto.Error, "missing"):
            with ckineto.record(self.path("missing/trace.json")) as recording:
                ckineto.instant("x")
        self.assertEqual(len(recording.trace), 1)

    def test_it_can_be_started_again(self):
        recording = ckineto.record()
        for name in ("first", "second"):
            recording.start()
            ckineto.instant(name)
            self.assertEqual(support.names(recording.stop()), [name])
        with self.assertRaises(ckineto.StateError):
            recording.stop()
        recording.close()
        recording.close()
        with self.assertRaisesRegex(ckineto.StateError, "closed"):
            recording.start()

    def test_recordings_overlap(self):
        with ckineto.record() as outer:
            ckineto.instant("a")
            with ckineto.record() as inner:
                ckineto.instant("b")
        self.assertEqual(support.names(outer.trace), ["a", "b"])
        self.assertEqual(support.names(inner.trace), ["b"])

    def test_pauses_and_snapshots(self):
        with ckineto.record() as recording:
            ckineto.instant("a")
            recording.pause()
            ckineto.instant("hidden")
            recording.resume()
            ckineto.instant("b")
            self.assertEqual(support.names(recording.snapshot()), ["a", "b"])
            ckineto.instant("c")
        self.assertEqual(support.names(recording.trace), ["a", "b", "c"])

    def test_kinds_and_threads_are_chosen(self):
        def work():
            ckineto.instant("other thread")

        with ckineto.record(threads="caller") as recording:
            ckineto.instant("mine")
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        self.assertEqual(support.names(recording.trace), ["mine"])
        with ckineto.record(kinds=["counter"]) as recording:
            ckineto.instant("not wanted")
            ckineto.counter("n", 1)
        self.assertEqual(support.names(recording.trace), ["n"])

    def test_wrong_options_are_errors(self):
        for options, words in (({"kinds": "nonsense"}, "nonsense"), ({"keep": "all"}, "oldest or newest"),
                               ({"threads": "some"}, "all or caller"), ({"buffer": "much"}, "512M"),
                               ({"buffer": -1}, "-1"), ({"plugins": ["/no/such.so"]}, "/no/such.so")):
            with self.assertRaisesRegex(ckineto.Error, words):
                ckineto.record(**options)

    def test_a_full_buffer_is_in_the_ledger(self):
        with ckineto.record(buffer="1M", keep="oldest") as recording:
            for number in range(100000):
                ckineto.instant("n", number=number)
        trace = recording.trace
        self.assertGreater(trace.lost, 0)
        self.assertEqual(len(trace) + trace.lost, 100000)
        self.assertTrue(any(line.is_loss for line in trace.ledger))

    def test_work_of_a_device_is_joined_with_its_launch(self):
        device = support.Device()
        with ckineto.record() as recording:
            with ckineto.range("forward"):
                device.launch("gemm")
                device.synchronize()
        trace = recording.trace
        kernel = next(a for a in trace if a.name == "gemm")
        self.assertEqual(kernel.kind, "kernel")
        self.assertEqual(kernel.launch.name, "simLaunch")
        self.assertEqual(kernel.launch.launched.row, kernel.row)
        self.assertEqual(kernel.launch.parent.name, "forward")
        self.assertEqual(kernel.track.type, "stream")
        self.assertTrue(any(p.is_device for p in trace.processes))
        self.assertTrue(trace.flows)

    def test_handles_go_with_their_owners(self):
        recording = ckineto.record()
        recording.start()
        trace = recording.snapshot()
        facts = trace.analyze("operators")
        ended = [owner._finalizer for owner in (recording, trace, facts)]
        del recording, trace, facts
        gc.collect()
        self.assertFalse(any(finalizer.alive for finalizer in ended))

    def test_a_recording_that_is_forgotten_ends_with_the_program(self):
        code = "import ckineto; r = ckineto.record(); r.start(); ckineto.instant('x'); print('end')"
        self.assertEqual(support.run_python(code), "end\n")

    def test_a_fork_is_recorded_as_a_process_of_its_own(self):
        with ckineto.record() as recording:
            ckineto.instant("parent")
            pid = os.fork()
            if not pid:
                ckineto.instant("child")
                os._exit(0)
            os.waitpid(pid, 0)
        trace = recording.trace
        self.assertEqual(sorted(support.names(trace)), ["child", "parent"])
        self.assertEqual(len({p.pid for p in trace.processes if not p.is_device}), 2)


class Trainings(support.TestCase):
    def train(self, count, **options):
        recorder = ckineto.TrainingRecorder(self.path("run"), **options)
        for i in range(count):
            recorder.begin_step()
            ckineto.step()  # as PyTorch's optimizers do: no step of its own meanwhile
            with ckineto.range("batch", number=i):
                pass
        return recorder

    def test_steps_are_recorded_after_those_that_are_skipped(self):
        for count, recorded in ((10, 4), (6, 4), (5, 3)):
            recorder = self.train(count, skip=2, steps=4)
            trace = recorder.finish()
            steps = [n for n in support.names(trace) if n.startswith("ProfilerStep")]
            self.assertEqual(steps, ["ProfilerStep#%d" % (3 + i) for i in range(recorded)])
            self.assertEqual(len(trace.analyze()["steps"]), recorded)
            self.assertIs(recorder.finish(), trace)
            self.assertTrue(os.path.exists(recorder.trace_path) and os.path.exists(recorder.report_path))
            self.assertIn(str(recorder.report_path), recorder.summary()[-1])

    def test_a_training_that_is_too_short_says_so(self):
        recorder = self.train(2, skip=2)
        self.assertIsNone(recorder.finish())
        self.assertIn("2 began", recorder.summary()[0])
        self.assertFalse(os.path.exists(self.path("run")))

    def test_each_rank_has_its_files(self):
        os.environ["RANK"] = "3"
        self.addCleanup(os.environ.pop, "RANK")
        recorder = self.train(3, skip=0, report=False)
        recorder.finish()
        self.assertEqual(os.path.basename(recorder.trace_path), "rank3.json.gz")
        self.assertIsNone(recorder.report_path)
        with self.assertRaises(ValueError):
            ckineto.TrainingRecorder(steps=0)


if __name__ == "__main__":
    support.main()
