#!/usr/bin/env python3
"""Plug-ins of vendors in a stock PyTorch: two devices at once, torch.profiler on ckineto (the seat) or joined by it.

    test_plugins.py [--python PYTHON] [--build build/release] [--bridges build/bridges]

PYTHON is one with PyTorch (build/peers/torch-VERSION/bin/python, see fetch.py); without it, the newest of these. One
plug-in is ckineto-sim.so, the other is compiled from the published layout of the interface alone (vendor_plugin.c). The
program is plugin_program.py; further programs register profilers as PrivateUse1 (privateuse1_program.py).

Exit status: 0 all hold, 1 not, 77 PyTorch, its bridge or a C compiler is missing.
"""

import argparse
import glob
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from typing import Any, Dict, List, Optional

import plugin_program_names as names
import seat_environment

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = seat_environment.SOURCE
given = argparse.Namespace()


class Missing(Exception):
    """What the tests need is not here; the text says what."""


def find_pythons() -> List[str]:
    """Interpreters of environments that fetch.py made, the newest version last."""

    def version(path: str) -> List[int]:
        return [int(n) for n in path.split("torch-")[1].split("/")[0].split(".")]

    return sorted(glob.glob(os.path.join(SOURCE, "build", "peers", "torch-[0-9]*", "bin", "python")), key=version)


def read_version(python: str) -> List[int]:
    """[2, 15] of the interpreter's PyTorch."""
    code = "from importlib.metadata import version; print(version('torch'))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Missing(f"{python} has no PyTorch")
    return [int(n) for n in done.stdout.split(".")[:2]]


def compile_library(command: List[str], what: str) -> None:
    if not shutil.which(command[0]):
        raise Missing(f"there is no {command[0]} to compile {what}")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{what} cannot be compiled:\n{done.stderr[-3000:]}")


def prepare() -> None:
    """Folders, plug-ins, environment: once, before the tests."""
    if not given.python:
        found = find_pythons()
        if not found:
            raise Missing("there is no PyTorch in build/peers (see fetch.py)")
        given.python = found[-1]
    given.python, given.build = os.path.abspath(given.python), os.path.abspath(given.build)
    given.version = read_version(given.python)
    given.library = os.path.join(given.build, "lib")
    given.sim = os.path.join(given.library, "ckineto", "ckineto-sim.so")
    minor = "%d.%d" % tuple(given.version)
    if not os.path.exists(given.sim):
        raise Missing(f"{given.sim} is not built")
    if not glob.glob(os.path.join(given.bridges, f"torch-{minor}-*.so")):
        raise Missing(f"there is no bridge for PyTorch {minor} in {given.bridges} (tools/build-bridges)")
    given.plugins = os.path.join(given.work, "plugins")
    os.makedirs(given.plugins)
    given.vendor = os.path.join(given.plugins, "vendor.so")
    compile_library(["cc", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-o", given.vendor,
                     os.path.join(HERE, "vendor_plugin.c")], "the vendor's plug-in")
    os.symlink(given.sim, os.path.join(given.plugins, "ckineto-sim.so"))


def make_environment(mode: Optional[str], plugins: str = "") -> Dict[str, str]:
    """Environment with ckineto as "1" or "guest"; None: it is there and not attached."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("CKINETO_", "KINETO_"))}
    variables.update(seat_environment.seat_variables(given.library, given.attach, given.work))
    variables.update(CKINETO_TORCH=mode or "0", CKINETO_BRIDGE_DIR=os.path.abspath(given.bridges),
                     CUDA_VISIBLE_DEVICES="", PYTHONDONTWRITEBYTECODE="1", KINETO_PLUGIN_LIB_DIR_PATH=plugins)
    return variables


def run_program(script: str, arguments: List[str], environment: Dict[str, str]) -> subprocess.CompletedProcess:
    command = [given.python, os.path.join(HERE, script), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False,
                          cwd=given.work)


def read_trace(path: str) -> Dict[str, Any]:
    """A trace, by Python's own reader of JSON; compressed by zstd: read by ckineto."""
    if path.endswith(".zst"):
        plain = path[:-4] + ".read.json"
        command = os.path.join(given.build, "bin", "ckineto")
        subprocess.run([command, "convert", path, "-o", plain], check=True, capture_output=True)
        path = plain
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:
        return json.load(file)


class Devices:
    """What both ways into PyTorch must show; `mode` and `plain` are of the classes below."""

    mode = ""
    plain = False
    folder = ""
    facts: Dict[str, Any] = {}

    @classmethod
    def setUpClass(cls):
        cls.folder = os.path.join(given.work, cls.mode)
        os.makedirs(cls.folder)
        environment = make_environment("1" if cls.mode == "seat" else "guest", given.plugins)
        done = run_program("plugin_program.py", [cls.folder, given.sim, given.vendor, cls.mode], environment)
        if done.returncode != 0:
            raise AssertionError(f"the program ended with {done.returncode}:\n{done.stderr[-3000:]}")
        with open(os.path.join(cls.folder, "facts.json"), encoding="utf-8") as file:
            cls.facts = json.load(file)

    def shown(self, name: str) -> str:
        """A name as this way into PyTorch shows it."""
        return names.make_plain_name(name) if self.plain else name

    def read(self, name: str) -> List[Dict[str, Any]]:
        return read_trace(os.path.join(self.folder, name))["traceEvents"]

    def events(self, trace: List[Dict[str, Any]], category: str) -> List[Dict[str, Any]]:
        return [event for event in trace if event.get("cat") == category]

    def operator_of(self, trace: List[Dict[str, Any]], event: Dict[str, Any]) -> str:
        ids = {e["args"].get("External id"): e["name"] for e in self.events(trace, "cpu_op")}
        return ids.get(event["args"].get("External id"), "")

    def check_kernels(self, name: str) -> None:
        trace = self.read(name)
        kernels = {event["name"]: event for event in self.events(trace, "kernel")}
        for kernel, operator in ((names.FORWARD, "OnDevice"), (names.BACKWARD, "OnDeviceBackward")):
            self.assertIn(self.shown(kernel), kernels)
            self.assertEqual(self.operator_of(trace, kernels[self.shown(kernel)]), operator)
        vendor = kernels[self.shown(names.VENDOR)]
        self.assertEqual(vendor["pid"], 3)
        note = names.make_plain(names.NOTE) if self.plain else names.NOTE
        self.assertEqual(vendor["args"]["note"], note)

    def test_kernels_belong_to_their_operators_in_each_profile(self):
        self.check_kernels("first.json")
        self.check_kernels("second.json.gz")

    def test_each_cycle_of_a_schedule_has_its_kernels(self):
        self.assertEqual(self.facts["cycles"], ["cycle0.json", "cycle1.json"])
        for name in self.facts["cycles"]:
            self.check_kernels(name)
            kernels = self.events(self.read(name), "kernel")
            self.assertEqual(len(kernels), 2 * 3)

    def test_calls_of_the_runtime_are_there_with_arrows(self):
        trace = self.read("first.json")
        calls = [event for event in trace if event["name"] == "simLaunch" and event["ph"] == "X"]
        self.assertEqual([self.operator_of(trace, call) for call in calls], ["OnDevice", "OnDeviceBackward"])
        ends = [event["ph"] for event in self.events(trace, "ac2g")]
        self.assertGreaterEqual(ends.count("s"), 3)
        self.assertEqual(ends.count("s"), ends.count("f"))

    def test_devices_and_their_rows_are_named(self):
        trace = self.read("first.json")
        rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace if e["name"] == "thread_name"}
        devices = {e["pid"]: e["args"]["name"] for e in trace if e["name"] == "process_name"}
        self.assertEqual(devices[0], "Sim accelerator")
        self.assertEqual(devices[3], self.shown(names.DEVICE))
        self.assertEqual(rows[0, 0], "compute 0")
        self.assertEqual(rows[3, 1], self.shown(names.ROW))
        process = next(e["pid"] for e in self.events(trace, "cpu_op"))
        self.assertTrue(any(pid == process and name.startswith(f"thread {tid} (") for (pid, tid), name in rows.items()))

    def test_tables_of_torch_have_the_devices_time(self):
        for run in ("first", "second"):
            facts = self.facts[run]
            self.assertEqual(facts["kernels"]["OnDevice"], [self.shown(names.FORWARD)])
            self.assertEqual(facts["kernels"]["OnDeviceBackward"], [names.BACKWARD])
            for key in ("OnDevice", "OnDeviceBackward", self.shown(names.FORWARD), self.shown(names.VENDOR)):
                self.assertGreater(facts["device_time"][key], 0, key)
            self.assertIn("Self DEVICE", facts["table"])
            self.assertIn(self.shown(names.VENDOR), facts["events"])

    def counters(self) -> List[Dict[str, Any]]:
        return [event for event in self.read("first.json") if event["ph"] == "C"]

    def test_the_header_says_where_the_trace_is_from(self):
        header = read_trace(os.path.join(self.folder, "first.json"))
        self.assertTrue(header["trace_id"])
        self.assertEqual(header["record_shapes"], 1)
        if self.mode == "seat" or given.version >= [2, 12]:
            self.assertEqual(header["host_name"], os.uname().nodename)


class SeatTest(Devices, unittest.TestCase):
    mode = "seat"

    def test_names_survive_in_every_format(self):
        self.check_kernels("third.json.zst")
        with open(os.path.join(self.folder, "fourth.pftrace"), "rb") as file:
            content = file.read()
        for name in (names.FORWARD, names.VENDOR):
            self.assertIn(name.encode(), content)

    def test_counters_are_in_the_trace_and_no_rows_of_tables(self):
        # The sample that sim takes when it is switched on precedes the profile.
        self.assertGreaterEqual(len(self.counters()), 2)
        self.assertTrue(all(event["name"] == "power" for event in self.counters()))
        self.assertNotIn("power", self.facts["first"]["device_time"])

    def test_an_error_of_saving_names_the_file(self):
        self.assertIn("/no/such/folder/trace.json", self.facts["error"])

    def test_a_profile_for_cuda_without_a_driver_is_harmless(self):
        self.assertGreater(self.facts["cuda_events"], 0)


class GuestTest(Devices, unittest.TestCase):
    mode = "guest"
    plain = True

    def test_counters_are_in_the_trace_where_there_is_a_type_for_them(self):
        count = len(self.counters())
        if given.version >= [2, 15]:
            self.assertGreaterEqual(count, 2)
        else:
            self.assertEqual(count, 0)


class PrivateUse1Test(unittest.TestCase):
    """Profilers that backends register by themselves, each in a process of its own."""

    def run_order(self, library: str, order: str) -> Dict[str, Any]:
        out = os.path.join(given.work, order + ".json")
        done = run_program("privateuse1_program.py", [out, library, order], make_environment(None))
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        with open(out, encoding="utf-8") as file:
            return json.load(file)

    def check_backend(self, order: str) -> None:
        library = os.path.join(given.work, f"backend-{order}.so")
        compile_library(["cc", "-O1", "-fPIC", "-shared", "-I" + os.path.join(SOURCE, "include"), "-o", library,
                         os.path.join(HERE, "privateuse1_plugin.c"), "-L" + given.library, "-lckineto-rt"],
                        "the backend's profiler")
        facts = self.run_order(library, order)
        self.assertEqual(facts["kernels"]["aten::add"], ["backend_kernel"])
        self.assertIn("backend_kernel", facts["trace"])

    def test_a_profiler_registered_before_the_seat_takes_part(self):
        self.check_backend("before")

    def test_a_profiler_registered_after_the_seat_takes_part(self):
        self.check_backend("after")

    def test_child_profilers_of_libkineto_take_part(self):
        library = os.path.join(given.work, "child.so")
        compile_library(make_child_command(library), "the child profiler")
        facts = self.run_order(library, "child")
        self.assertIn("child_kernel", facts["names"])
        self.assertIn("child_kernel", facts["trace"])
        self.assertIn("Child device", facts["devices"])
        self.assertGreater(facts["pushed"], 0)
        if given.version >= [2, 12]:
            self.assertIn("backend_child_kernel", facts["backend"]["names"])
            self.assertIn("backend_child_kernel", facts["backend"]["trace"])


class CheckTest(unittest.TestCase):
    """ckineto plugin check --torch."""

    def check(self, plugin: str, **variables: str) -> subprocess.CompletedProcess:
        command = [os.path.join(given.build, "bin", "ckineto"), "plugin", "check", "--json", "--limit", "300",
                   "--torch=" + given.python, plugin]
        return subprocess.run(command, env={**make_environment(None), **variables}, capture_output=True, text=True,
                              timeout=600, check=False)

    def verdicts(self, done: subprocess.CompletedProcess) -> Dict[str, str]:
        return {rule["id"]: rule["verdict"] for rule in json.loads(done.stdout)["rules"]}

    def test_a_plug_in_that_records_conforms(self):
        done = self.check(given.sim)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(set(self.verdicts(done).values()), {"ok"})

    def test_a_plug_in_that_does_not_start_fails(self):
        done = self.check(given.sim, CKINETO_SIM_FAULT="error")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(self.verdicts(done)["torch.events"], "failed")

    def test_a_crash_is_a_verdict(self):
        source, library = os.path.join(given.work, "crash.c"), os.path.join(given.work, "crash.so")
        with open(source, "w", encoding="ascii") as file:
            file.write("int KinetoPlugin_register(const void *r) { return r == 0; }\n"
                       "int KinetoPlugin_exercise(unsigned n) { __builtin_trap(); return (int)n; }\n")
        compile_library(["cc", "-shared", "-fPIC", "-o", library, source], "a plug-in that crashes")
        done = self.check(library)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(self.verdicts(done), {"torch.survives": "failed"})

    def test_a_python_that_is_missing_is_reported(self):
        done = subprocess.run([os.path.join(given.build, "bin", "ckineto"), "plugin", "check", "--torch=/no/python",
                               given.sim], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("/no/python", done.stderr)


def find_torch() -> str:
    """Folder of the package torch."""
    code = "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    return subprocess.run([given.python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def find_headers() -> str:
    """PyTorch's headers: its own, or those that tools/build-bridges fetched."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    minor = "%d.%d" % tuple(given.version)
    for include in (os.path.join(find_torch(), "include"),
                    os.path.join(cache, "ckineto-torch", "headers", minor, "torch", "include")):
        if os.path.exists(os.path.join(include, "kineto", "libkineto.h")):
            return include
    raise unittest.SkipTest(f"the headers of PyTorch {minor} are not here")


def make_child_command(output: str) -> List[str]:
    """The command that compiles child_profiler.cc for this PyTorch."""
    if not shutil.which("g++"):
        raise unittest.SkipTest("there is no g++")
    include = find_headers()
    return ["g++", "-std=c++20" if given.version >= [2, 10] else "-std=c++17", "-DNDEBUG", "-O0", "-fPIC", "-shared",
            "-fvisibility=hidden", "-DKINETO_NAMESPACE=libkineto", "-DFMT_HEADER_ONLY",
            "-D_GLIBCXX_USE_CXX11_ABI=%d" % (given.version >= [2, 7]),
            "-DCHILD_HAS_REGISTRY=%d" % (given.version >= [2, 12]),
            "-isystem", include, "-isystem", os.path.join(include, "kineto"),
            "-isystem", os.path.join(SOURCE, "bridges", "torch", "compat"),
            os.path.join(HERE, "child_profiler.cc"), "-o", output, "-Wl,--unresolved-symbols=ignore-all",
            "-Wl,--no-as-needed", "-L" + os.path.join(find_torch(), "lib"), "-ltorch_cpu", "-lc10"]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", help="interpreter with PyTorch (default: the newest in build/peers)")
    parser.add_argument("--build", default=os.path.join(SOURCE, "build", "release"), help="build folder of ckineto")
    parser.add_argument("--bridges", default=seat_environment.DEFAULT_BRIDGES, help="folder of bridges")
    parser.add_argument("--attach", default=seat_environment.DEFAULT_ATTACH, help="folder of ckineto_attach")
    parser.add_argument("tests", nargs="*", help="names of tests, as unittest takes them")
    parser.parse_args(namespace=given)
    with tempfile.TemporaryDirectory(prefix="ckineto-plugins-") as given.work:
        try:
            prepare()
        except Missing as missing:
            print(f"skipped: {missing}")
            return 77
        print("PyTorch %d.%d of %s" % (*given.version, given.python))
        program = unittest.main(argv=[sys.argv[0], *given.tests], exit=False, verbosity=2)
        return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
