"""`ckineto record` of real PyTorch programs: operators with shapes, places in the autograd graph, modules,
memory, worker processes, collectives, device work; crashes and rings. With the distribution's PyTorch, or the
one of TORCH_PYTHON.

    CKINETO=build/dev/bin/ckineto python3 test_recorder.py [NAME …]
"""
import atexit
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

CKINETO = os.environ.get("CKINETO", "ckineto")
PYTHON = os.environ.get("TORCH_PYTHON", "/usr/bin/python3")
PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs.py")
LIBRARIES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(CKINETO))), "lib", "ckineto")


class Recording:
    """A program, recorded."""

    def __init__(self, program, *options, python_flags=(), environment=None, name="trace.json"):
        self.folder = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, self.folder, True)
        self.path = os.path.join(self.folder, name)
        command = [CKINETO, "record", "-q", "-o", self.path, *options, "--", PYTHON, *python_flags,
                   PROGRAMS, program]
        given = dict(os.environ, CUDA_VISIBLE_DEVICES="", PYTHONDONTWRITEBYTECODE="1",
                     OMP_NUM_THREADS="2", **(environment or {}))
        self.done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=given,
                                   timeout=280)
        self.out, self.err = self.done.stdout.decode(), self.done.stderr.decode()
        with open(self.path) as file:
            self.trace = json.load(file)
        self.events = [e for e in self.trace["traceEvents"] if e["ph"] != "M"]

    def named(self, name, category="cpu_op"):
        return [e for e in self.events if e["name"] == name and e.get("cat") == category]

    def of_kind(self, category):
        return [e for e in self.events if e.get("cat") == category]

    def info(self):
        return subprocess.run([CKINETO, "info", self.path], stdout=subprocess.PIPE).stdout.decode()


def contains(outer, inner):
    return (outer["tid"] == inner["tid"] and outer["ts"] <= inner["ts"] and
            inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"])


class TestTraining(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.recording = Recording("train")

    def test_the_program_is_undisturbed(self):
        done = self.recording.done
        self.assertEqual(done.returncode, 3)
        self.assertTrue(self.recording.out.startswith("losses ["))
        self.assertEqual(self.recording.err, "done\n")

    def test_nothing_was_lost(self):
        self.assertIn("nothing was lost", self.recording.info())

    def test_operators_have_shapes_and_types(self):
        first = self.recording.named("aten::linear")[0]["args"]
        self.assertEqual(first["Input Dims"], [[3, 8], [16, 8], [16]])
        self.assertEqual(first["Input type"], ["float", "float", "float"])
        added = [e["args"] for e in self.recording.named("aten::add")
                 if e["args"].get("Concrete Inputs") == ["", "", "2"]]
        self.assertEqual(added[0]["Input Dims"], [[2], [], []])
        self.assertEqual(added[0]["Input type"], ["float", "double", "Scalar"])

    def test_lists_of_tensors(self):
        cat = self.recording.named("aten::cat")[0]["args"]
        self.assertEqual(cat["Input Dims"], [[[2, 3], [4, 3]], []])
        self.assertEqual(cat["Input type"], ["TensorList", "Scalar"])
        few, many = self.recording.named("aten::stack")
        self.assertEqual(few["args"]["Input Dims"], [[[1]] * 30, []])
        self.assertEqual(many["args"]["Input Dims"], [[], []])  # as in PyTorch's own traces

    def test_the_backward_pass_leads_back_to_the_forward_pass(self):
        forward = {e["args"]["Sequence number"]: e for e in self.recording.named("aten::addmm")}
        backward = self.recording.named("AddmmBackward0")
        self.assertEqual(len(backward), 6)
        for event in backward:
            self.assertIn(event["args"]["Sequence number"], forward)
        arrows = self.recording.of_kind("fwdbwd")
        self.assertEqual(sum(e["ph"] == "s" for e in arrows), sum(e["ph"] == "f" for e in arrows))
        self.assertGreaterEqual(len(arrows), 12)

    def test_operators_nest(self):
        for linear in self.recording.named("aten::linear"):
            self.assertTrue(any(contains(linear, e) for e in self.recording.named("aten::addmm")))

    def test_annotations(self):
        self.assertEqual(len(self.recording.named("Optimizer.step#SGD.step", "user_annotation")), 3)
        names = {e["name"] for e in self.recording.of_kind("user_annotation")}
        self.assertTrue({"name %d" % i for i in range(2000)} <= names)
        self.assertIn('quote " back \\ slash \x01 é', names)

    def test_ranges_that_end_out_of_order_end(self):
        outer = self.recording.named("outer first out", "user_annotation")[0]
        inner = self.recording.named("inner last out", "user_annotation")[0]
        self.assertTrue(contains(outer, inner))
        after = self.recording.named("name 0", "user_annotation")[0]
        self.assertGreaterEqual(after["ts"], outer["ts"] + outer["dur"])

    def test_deep_nests_end(self):
        nested = self.recording.named("nested", "user_annotation")
        self.assertGreaterEqual(len(nested), 250)
        last = max(e["ts"] + e["dur"] for e in nested)
        self.assertLessEqual(last, self.recording.named("name 0", "user_annotation")[0]["ts"])

    def test_a_failing_operator_is_there(self):
        self.assertTrue(any(e["args"]["Input Dims"] == [[2, 3], [2, 3]]
                            for e in self.recording.named("aten::mm")))

    def test_threads_that_start_meanwhile(self):
        marked = self.recording.named("in a thread", "user_annotation")
        self.assertEqual(len(marked), 1)
        self.assertTrue(any(contains(marked[0], e) for e in self.recording.named("aten::mm")))
        self.assertNotEqual(marked[0]["tid"], self.recording.named("aten::linear")[0]["tid"])

    def test_memory_adds_up(self):
        total = None
        events = sorted((e for e in self.recording.events if e["name"] == "[memory]"),
                        key=lambda e: e["ts"])
        self.assertGreater(len(events), 50)
        for event in events:
            now = event["args"]["Total Allocated"]
            if total is not None:
                self.assertEqual(now, total + event["args"]["Bytes"])
            total = now

    def test_modules_enclose_operators(self):
        modules = self.recording.of_kind("python_function")
        if not modules:
            self.skipTest("the recorder of Python functions is not built here")
        linear = [e for e in modules if e["name"] == "nn.Module: Linear_0"]
        self.assertEqual(len(linear), 3)
        self.assertTrue(any(contains(linear[0], e) for e in self.recording.named("aten::linear")))


class TestProcesses(unittest.TestCase):
    def test_workers_and_spawned_processes(self):
        recording = Recording("workers")
        self.assertEqual(recording.done.returncode, 0, recording.err)
        self.assertEqual(recording.out, "56.0\n" if "56" in recording.out else "224.0\n")
        multiplied = collections.Counter(e["pid"] for e in recording.named("aten::mul"))
        self.assertEqual(len(multiplied), 2, "operators of both workers")
        self.assertEqual(sum(multiplied.values()), 8)
        names = {e["pid"]: e["args"]["name"] for e in recording.trace["traceEvents"] if e["name"] == "process_name"}
        self.assertEqual({names[pid] for pid in multiplied}, {"DataLoader worker 0", "DataLoader worker 1"})
        shapes = {json.dumps(e["args"]["Input Dims"]) for e in recording.named("aten::mm")}
        self.assertEqual(shapes, {"[[2, 2], [2, 2]]", "[[3, 2], [2, 2]]"})

    def test_ranks(self):
        recording = Recording("ranks")
        if recording.done.returncode == 77:
            self.skipTest("this PyTorch has no torch.distributed")
        self.assertEqual(recording.done.returncode, 0, recording.err)
        filled = {e["pid"] for e in recording.events if e["name"] == "aten::ones"}
        self.assertEqual(len(filled), 2)


class TestDevice(unittest.TestCase):
    def test_device_work_belongs_to_its_operator_and_survives_a_kill(self):
        plugin = os.path.join(LIBRARIES, "ckineto-sim.so")
        recording = Recording("device", "--plugin", plugin, environment={"SIM_LIBRARY": plugin})
        self.assertEqual(recording.done.returncode, 128 + 9)
        kernels = recording.named("sim_in_backward", "kernel")
        self.assertEqual(len(kernels), 4)
        owners = {e["args"]["External id"]: e["name"] for e in recording.of_kind("cpu_op")}
        for kernel in kernels:
            self.assertEqual(owners[kernel["args"]["External id"]], "OnDeviceBackward")


class TestOptions(unittest.TestCase):
    def test_python_that_ignores_the_environment_is_named(self):
        recording = Recording("train", python_flags=("-I",))
        self.assertEqual(recording.done.returncode, 3)
        self.assertFalse(recording.of_kind("cpu_op"))
        self.assertIn("Python did not import ckineto's package", recording.info())

    def test_no_torch_and_a_ring(self):
        recording = Recording("train", "--no-torch")
        self.assertFalse(recording.of_kind("cpu_op"))
        self.assertIn("--no-torch or CKINETO_TORCH=0 leaves it out", recording.info())
        self.assertNotIn("Python did not import", recording.info())
        ring = Recording("train", "--ring", "60", "--no-shapes")
        self.assertEqual(ring.done.returncode, 3)
        self.assertEqual(len(ring.named("aten::addmm")), 6)
        self.assertNotIn("Input Dims", ring.named("aten::addmm")[0]["args"])

    def test_a_missing_bridge_is_the_one_reason(self):
        with tempfile.TemporaryDirectory() as home:
            recording = Recording("train", environment={"CKINETO_BRIDGE_DIR": home, "XDG_CACHE_HOME": home,
                                                        "CKINETO_TORCH_BUILD": "0", "CKINETO_STACKS_BUILD": "0"})
        self.assertEqual(recording.done.returncode, 3)
        if recording.of_kind("cpu_op"):
            self.skipTest("the bridge is installed next to the package")
        self.assertIn("operators are not recorded", recording.info())
        self.assertNotIn("Python did not import", recording.info())


def main():
    probe = subprocess.run([PYTHON, "-c", "import torch"], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, env=dict(os.environ, CKINETO_TORCH="0"))
    if probe.returncode:
        print("skipped: %s has no PyTorch" % PYTHON)
        return 77
    result = unittest.main(exit=False, verbosity=2).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
