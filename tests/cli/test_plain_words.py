"""Programs that do not use PyTorch: no verb names functions of it or options of its profiler."""

import json
import os
import re

from command import TARGET, CommandTest, main

HERE = os.path.dirname(os.path.abspath(__file__))
WATCHED = os.path.join(HERE, "../data/watched/work.json.gz")
TRAINING = os.path.join(HERE, "../data/torch-2.5.1/training.json.gz")
TORCH = re.compile(r"profile_memory|with_stack|with_modules|record_shapes|\btorch\b|PYTORCH_|DataLoader|num_workers|pin_memory|"
                   r"\bstep\(\)|tensor\.|autocast|init_process_group|item\(\)|foreach=|GradScaler")
# Titles of rules, in lists of those that found nothing, and definitions of tables.
NAMES = re.compile(r'"(title|definition)":"[^"]*"')


def event(cat, name, start, duration, **more):
    return {"ph": "X", "cat": cat, "name": name, "pid": 5, "tid": 7, "ts": start, "dur": duration, **more}


def opencl(steps=6):
    """A host that sends data, launches small kernels and waits for each, with memory from the driver in each step."""
    events, link = [], 0
    def call(name, start, duration, kind=None, work=None, length=0, **args):
        nonlocal link
        link += 1
        events.append(event("runtime", name, start, duration, args={"correlation": link}))
        if kind:
            events.append(event(kind, work, start + duration + 5, length, pid=0, tid=1,
                                args={"correlation": link, "device": 0, "stream": 1, **args}))
    for step in range(steps):
        at = 10000 * step * (3 if step == steps - 1 else 1)
        events.append(event("user_annotation", "frame", at, 9000))
        events.append(event("cpu_op", "blur", at + 10, 8000))
        call("clCreateBuffer", at + 20, 900)
        call("clEnqueueWriteBuffer", at + 1000, 700, "gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 600, bytes=1 << 20)
        for k in range(20):
            call("clEnqueueNDRangeKernel", at + 2500 + 50 * k, 20, "kernel", "blur", 3, grid=[1, 1, 1], block=[8, 1, 1],
                 **{"blocks per SM": 0.05, "est. achieved occupancy %": 2})
        call("clFinish", at + 3600, 1500)
        call("clEnqueueReadBuffer", at + 5200, 1500, "gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 300, bytes=1 << 20)
        call("cudaMalloc", at + 6900, 400)
        call("cudaFree", at + 7400, 400)
        call("cudaStreamSynchronize", at + 7900, 900)
    devices = [{"id": 0, "name": "device", "totalGlobalMem": 1 << 30, "numSms": 80, "computeMajor": 8, "computeMinor": 0}]
    return {"deviceProperties": devices, "traceEvents": events}


class PlainWords(CommandTest):
    def outputs(self, path):
        """Command line → all that it prints."""
        out = self.path("memory.json")
        for words in (["analyze"], ["analyze", "-v"], ["analyze", "--findings", "-v"], ["analyze", "--findings", "--json", "-"],
                      ["analyze", "--all", "--series"], ["analyze", "--all", "--json", "-"], ["analyze", "--brief"],
                      ["analyze", "--only", "memory,modules,annotations,roofline,operators,steps,idle_named"],
                      ["analyze", "--step-pattern", "frame", "--findings"], ["info"], ["verify", "-v"], ["report", "--text"],
                      ["table"], ["table", "--memory", "-o", out], ["table", "--stacks", "self_cpu_time_total"], ["diff", path],
                      ["diff", "--all", path]):
            done = self.run_command(*words, path)
            yield words, done.out.decode() + done.err.decode()

    def check(self, path):
        for words, text in self.outputs(path):
            found = TORCH.search(NAMES.sub("", text))
            self.assertIsNone(found, (words, found and text[max(0, found.start() - 200):found.end() + 100]))

    def test_samples_of_a_watched_program(self):
        self.check(WATCHED)

    def test_recorded_programs_of_the_cpu(self):
        for options in ([], ["--memory", "--waits"]):
            done = self.run_command("record", "-b", "8", "-o", "t.json", "-v", *options, "--", TARGET, "300")
            self.assertEqual(done.returncode, 0, done.err)
            self.assertIsNone(TORCH.search(done.err.decode()), done.err)
            self.check(self.path("t.json"))

    def test_a_device(self):
        path = self.path("opencl.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(opencl(), file)
        found = {f["id"] for words in ([], ["--step-pattern", "frame"])
                 for f in json.loads(self.run_command("analyze", "--findings", "--json", "-", *words, path).out)["findings"]}
        self.assertLessEqual({"launch.bound", "trace.lazy_start", "memory.allocator_churn", "device.low_utilization"}, found)
        self.check(path)

    def test_pytorch_has_its_words(self):
        text = self.run_command("analyze", "--findings", "-v", TRAINING).out.decode()
        self.assertRegex(text, TORCH)


main()
