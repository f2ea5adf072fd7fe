"""PyTorch's operators in ckineto.profile: the same functions as in torch.profiler, all threads included."""
import json
import threading
import unittest

import support
import ckineto

try:
    import torch
except ImportError:
    torch = None


def why_not():
    """Why these tests cannot run; None if they can."""
    if torch is None:
        return "PyTorch is not installed"
    from ckineto import _functions

    _functions.library_directory()
    from ckineto_attach import torch_bridge

    try:
        torch_bridge.load_bridge(torch)
    except torch_bridge.AttachError as error:
        return str(error)
    return None


def make_training():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(record_function):
        with record_function("forward"):
            loss = torch.nn.functional.cross_entropy(model(torch.randn(4, 8)), torch.zeros(4).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    train(ckineto.record_function)
    return train


def counts_of(averages):
    """Calls of PyTorch's operators: what an optimizer marks differs with its version."""
    return {a.key: a.count for a in averages if a.key.startswith(("aten::", "autograd::")) or
            a.key == "forward"}


class Absent(support.TestCase):
    def test_a_missing_bridge_is_one_warning_that_says_why(self):
        code = """
import sys, types, warnings
sys.modules["torch"] = types.ModuleType("torch")
import ckineto
from ckineto import _functions
_functions.library_directory()
from ckineto_attach import torch_bridge
def attach_recorder():
    raise torch_bridge.AttachError("there is no bridge")
torch_bridge.attach_recorder = attach_recorder
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        with ckineto.profile() as prof:
            with ckineto.range("x"):
                pass
    print(len(prof.events()), [str(w.message) for w in caught])
"""
        self.assertEqual(
            support.run_python(code).strip(),
            "1 ['ckineto: operators of PyTorch are not recorded: there is no bridge']")


@unittest.skipIf(why_not(), why_not())
class Profiles(support.TestCase):
    def profile(self, module, **options):
        train = make_training()
        with module.profile(activities=[module.ProfilerActivity.CPU], **options) as prof:
            for _ in range(3):
                train(module.record_function)
        return prof

    def test_the_same_operators_as_in_pytorch_s_own_profiler(self):
        if not torch.profiler.kineto_available():
            self.skipTest("this PyTorch was built without its profiler")
        theirs = counts_of(self.profile(torch.profiler).key_averages())
        mine = counts_of(self.profile(ckineto).key_averages())
        self.assertEqual(mine, theirs)

    def test_backward_runs_on_other_threads_and_is_there(self):
        prof = self.profile(ckineto)
        keys = {a.key for a in prof.key_averages()}
        self.assertIn("aten::addmm", keys)
        self.assertTrue(any("AddmmBackward" in key for key in keys), keys)

    def test_threads_of_the_program_are_recorded(self):
        def work():
            torch.ones(3).add_(1)

        with ckineto.profile() as prof:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        self.assertIn("aten::add_", {e.name for e in prof.events()})

    def test_shapes(self):
        prof = self.profile(ckineto, record_shapes=True)
        first = next(e for e in prof.events() if e.name == "aten::addmm")
        self.assertEqual(first.input_shapes[1:3], [[4, 8], [8, 16]])
        grouped = prof.key_averages(group_by_input_shape=True)
        shapes = [a.input_shapes for a in grouped if a.key == "aten::addmm"]
        self.assertEqual(len(shapes), 2)
        self.assertIsInstance(shapes[0], list)

    def test_sequence_numbers_join_forward_and_backward(self):
        events = self.profile(ckineto).events()
        forward = {e.sequence_nr for e in events if e.name == "aten::addmm"}
        backward = {e.sequence_nr for e in events if e.name.startswith("AddmmBackward")}
        self.assertTrue(backward and backward <= forward, (forward, backward))

    def test_schedules_and_files(self):
        train = make_training()
        handler = ckineto.tensorboard_trace_handler(self.path("log"))
        with ckineto.profile(schedule=torch.profiler.schedule(wait=1, warmup=1, active=2),
                             on_trace_ready=handler, with_flops=True) as prof:
            for _ in range(4):
                train(ckineto.record_function)
                prof.step()
        path = self.path("t.json")
        prof.export_chrome_trace(path)
        with open(path, encoding="utf-8") as file:
            names = [e.get("name") for e in json.load(file)["traceEvents"]]
        self.assertEqual(names.count("ProfilerStep#2"), 1)
        self.assertIn("aten::mm", names)
        self.assertTrue(any(a.flops for a in prof.key_averages() if a.key == "aten::addmm"))

    def test_execution_traces(self):
        path = self.path("et.json")
        observer = ckineto.ExecutionTraceObserver().register_callback(path)
        self.profile(ckineto, record_shapes=True, execution_trace_observer=observer)
        with open(path, encoding="utf-8") as file:
            nodes = json.load(file)["nodes"]
        self.assertIn("aten::addmm", {node["name"] for node in nodes})


class TestInstall(unittest.TestCase):
    def test_a_word_that_is_unknown(self):
        with self.assertRaises(ValueError):
            ckineto.install("throne")


if __name__ == "__main__":
    support.main()
