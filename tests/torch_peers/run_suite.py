#!/usr/bin/env python3
"""Run PyTorch's own profiler tests, with its libkineto and with ckineto in libkineto's seat, and compare.

    run_suite.py --python build/peers/torch-2.6.0/bin/python --tests build/peers/torch-tests-2.6.0 \\
        --seat build/release/lib --out build/peers/suite-2.6.0

Each file of tests runs in a process of its own, on a copy in a temporary folder, so that files that tests leave vanish
with it. The outcomes are written to OUT/libkineto.json and OUT/ckineto.json. Asked is: each test that passes with
libkineto passes with ckineto. Without --seat only libkineto's run is made. A JSON file of outcomes that is there is
used again, unless --again is given. The tests that pass with libkineto only run once more, without the others, with
both: a test whose outcome then is the same for both is listed as unsteady.

Exit status: 0 all is as asked, 1 not, 2 wrong usage, 77 PyTorch or the tests are missing.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Optional

import seat_environment

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = [
    "test_profiler.py", "test_kineto.py", "test_record_function.py", "test_execution_trace.py",
    "test_memory_profiler.py", "test_torch_tidy.py", "test_profiler_tree.py", "test_cpp_thread.py",
    "test_python_tracer.py", "test_trace_validator.py",
]
# What CI and other tools set changes which tests PyTorch runs.
REMOVED = ("CI", "PYTEST_ADDOPTS", "KINETO_USE_DAEMON", "KINETO_CONFIG")

Outcomes = Dict[str, Dict[str, Any]]


class Setting:
    """How the tests are run: interpreter, folder of tests, and what is put into the process."""

    def __init__(self, arguments: argparse.Namespace, seat: bool):
        self.python = arguments.python
        self.tests = os.path.abspath(arguments.tests)
        self.preload = arguments.preload if seat or not arguments.seat else ""
        self.limit = arguments.limit
        self.seat = os.path.abspath(arguments.seat) if seat else ""
        self.attach = arguments.attach

    def environment(self, work: str, outcomes: str) -> Dict[str, str]:
        """Environment of a run whose files stay below WORK."""
        variables = {name: value for name, value in os.environ.items() if name not in REMOVED}
        variables.update(
            PYTHONPATH=HERE, PYTHONDONTWRITEBYTECODE="1", TMPDIR=os.path.join(work, "tmp"),
            TORCH_EXTENSIONS_DIR=os.path.join(work, "extensions"), XDG_CACHE_HOME=os.path.join(work, "cache"),
            TORCHINDUCTOR_CACHE_DIR=os.path.join(work, "inductor"), CKINETO_OUTCOMES=outcomes, CUDA_VISIBLE_DEVICES="")
        if self.seat:
            variables.update(seat_environment.seat_variables(self.seat, self.attach, work))
            variables["PYTHONPATH"] += os.pathsep + HERE
        else:
            variables["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        return variables


def copy_tests(tests: str, work: str) -> str:
    """A copy of the tests that may be written to, as test/profiler because some look for files of the source."""
    copy = os.path.join(work, "test", "profiler")
    shutil.copytree(tests, copy)
    os.makedirs(os.path.join(work, "tmp"))
    return copy


def take_lines(path: str) -> Outcomes:
    """Outcomes that the plug-in has written, which are removed; a test that has not ended is "started"."""
    outcomes: Outcomes = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                entry = json.loads(line)
                name = entry.pop("test")
                if entry.pop("started", False):
                    entry = {"outcome": "started", "seconds": 0.0, "reason": ""}
                outcomes[name] = entry
        os.unlink(path)
    return outcomes


def run_process(setting: Setting, folder: str, environment: Dict[str, str], selection: List[str]) -> int:
    """Run pytest once. Returns its exit status, negative for a signal, 124 when it ran past the limit."""
    code = f"{setting.preload}\nimport pytest, sys\nsys.exit(pytest.main(sys.argv[1:]))"
    command = [setting.python, "-c", code, "-q", "-p", "no:cacheprovider", "-p", "outcome_plugin", *selection]
    log = os.path.join(os.path.dirname(environment["CKINETO_OUTCOMES"]), "log.txt")
    with open(log, "ab") as file:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=file, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            return process.wait(setting.limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return 124


def run_file(setting: Setting, file: str, tests: Optional[List[str]] = None) -> Outcomes:
    """Outcomes of one file of tests, or of some of its tests. What the file imports and this PyTorch does not have is
    stood in for; the tests that use it fail."""
    missing: List[str] = []
    while True:
        done = run_once(setting, file, tests, missing)
        name = find_missing(done.get(file, {}).get("reason", ""))
        if not name or name in missing:
            return done
        missing.append(name)
        print(f"  {file}: this PyTorch has no {name}", flush=True)


def find_missing(reason: str) -> str:
    """MODULE or MODULE:NAME that could not be imported from PyTorch, or an empty string."""
    match = re.search(r"No module named '(torch[\w.]*)'|cannot import name '(\w+)' from '(torch[\w.]*)'", reason)
    return (match.group(1) or f"{match.group(3)}:{match.group(2)}") if match else ""


def run_once(setting: Setting, file: str, tests: Optional[List[str]], missing: List[str]) -> Outcomes:
    """Outcomes with stand-ins for what is missing. A test that ends the process is "crashed" (or "hung"), and the tests
    after it run in the next process."""
    done: Outcomes = {}
    with tempfile.TemporaryDirectory(prefix="ckineto-suite-") as work:
        folder = copy_tests(setting.tests, work)
        lines = os.path.join(work, "outcomes.jsonl")
        environment = {**setting.environment(work, lines), "CKINETO_STAND_INS": ",".join(missing)}
        while True:
            skipped = [option for name in done for option in ("--deselect", name)]
            status = run_process(setting, folder, environment, (tests or [file]) + skipped)
            done.update(take_lines(lines))
            ended = [name for name, result in done.items() if result["outcome"] == "started"]
            for name in ended:
                done[name].update(outcome="hung" if status == 124 else "crashed", reason=f"exit status {status}")
            if not ended:
                break
        if not done:
            done[file] = {"outcome": "failed", "seconds": 0.0, "reason": last_line(os.path.join(work, "log.txt"))}
    return done


def last_line(path: str) -> str:
    """Last line of a log that is not empty."""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    return lines[-1] if lines else "no output"


def run_all(setting: Setting, files: List[str]) -> Outcomes:
    """Outcomes of all files."""
    outcomes: Outcomes = {}
    for file in files:
        found = run_file(setting, file)
        outcomes.update(found)
        print(f"  {file}: {summarise(found.values())}", flush=True)
    return outcomes


def summarise(results: Any) -> str:
    """For example: 63 passed, 11 skipped."""
    counts: Dict[str, int] = {}
    for result in results:
        counts[result["outcome"]] = counts.get(result["outcome"], 0) + 1
    return ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) or "no tests"


def torch_version(python: str) -> str:
    """Version of the interpreter's PyTorch, or an empty string if that or what the tests need is missing."""
    code = "import torch, pytest, expecttest, hypothesis; print(torch.__version__)"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False, cwd="/")
    return done.stdout.strip()


def load_or_run(arguments: argparse.Namespace, seat: bool, files: List[str]) -> Outcomes:
    """Outcomes of a run: those of an earlier one where they are kept, and not unwanted."""
    name = "ckineto" if seat else "libkineto"
    path = os.path.join(arguments.out, f"{name}.json")
    if os.path.exists(path) and not (arguments.again or seat):
        with open(path, encoding="utf-8") as file:
            kept: Outcomes = json.load(file)["tests"]
        if all(any(test.split("::")[0] == wanted for test in kept) for wanted in files):
            return {test: result for test, result in kept.items() if test.split("::")[0] in files}
    print(f"{name}:", flush=True)
    outcomes = run_all(Setting(arguments, seat), files)
    os.makedirs(arguments.out, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"torch": arguments.torch, "tests": outcomes}, file, indent=1, sort_keys=True)
    return outcomes


def find_lost(asked: Outcomes, measured: Outcomes) -> List[str]:
    """Tests that pass with libkineto and not with ckineto."""
    return [name for name, result in asked.items()
            if result["outcome"] == "passed" and measured.get(name, {}).get("outcome") != "passed"]


def separate_unsteady(arguments: argparse.Namespace, lost: List[str]) -> List[str]:
    """Those of the lost tests that have the same outcome with both when only the lost ones run."""
    unsteady = []
    for file in sorted({name.split("::")[0] for name in lost}):
        names = [name for name in lost if name.split("::")[0] == file and "::" in name]
        pair = [run_file(Setting(arguments, seat), file, names) for seat in (False, True)] if names else [{}, {}]
        for name in names:
            first, second = (found.get(name, {}).get("outcome") for found in pair)
            if first and first == second:
                unsteady.append(name)
    return unsteady


def print_table(files: List[str], asked: Outcomes, measured: Outcomes) -> None:
    """Asked and measured for each file."""
    print("| file | libkineto | asked to pass | ckineto passes of these |")
    print("|---|---|---|---|")
    for file in files:
        base = {name: result for name, result in asked.items() if name.split("::")[0] == file}
        passed = [name for name, result in base.items() if result["outcome"] == "passed"]
        kept = [name for name in passed if measured.get(name, {}).get("outcome") == "passed"]
        print(f"| {file} | {summarise(base.values())} | {len(passed)} | {len(kept)} |")


def compare(arguments: argparse.Namespace, files: List[str], asked: Outcomes) -> int:
    """Run with the seat taken and report each difference."""
    measured = load_or_run(arguments, True, files)
    print_table(files, asked, measured)
    lost = find_lost(asked, measured)
    unsteady = separate_unsteady(arguments, lost)
    for name in lost:
        result = measured.get(name, {"outcome": "missing", "reason": ""})
        kind = "unsteady" if name in unsteady else "lost"
        print(f"{kind}: {name}: {result['outcome']}: {result['reason'].splitlines()[0] if result['reason'] else ''}")
    for name, result in measured.items():
        if result["outcome"] == "passed" and asked.get(name, {}).get("outcome") not in ("passed", None):
            print(f"gained: {name}: was {asked[name]['outcome']}")
    return 1 if len(lost) > len(unsteady) else 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", required=True, help="interpreter whose PyTorch is tested")
    parser.add_argument("--tests", required=True, metavar="FOLDER", help="PyTorch's test/profiler")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="where the outcomes are written")
    parser.add_argument("--seat", metavar="LIBDIR", help="also run with ckineto, whose libraries are in LIBDIR")
    parser.add_argument("--attach", metavar="FOLDER", default=seat_environment.DEFAULT_ATTACH,
                        help="folder with the package ckineto_attach (default: this repository's python)")
    parser.add_argument("--preload", metavar="CODE", default="",
                        help="Python statements before the tests; with --seat only in ckineto's run")
    parser.add_argument("--only", metavar="FILE", action="append", help="only these files of tests")
    parser.add_argument("--limit", metavar="SECONDS", type=int, default=1800, help="time for one file (default 1800)")
    parser.add_argument("--again", action="store_true", help="do not use libkineto's outcomes of an earlier run")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    arguments.python = os.path.abspath(arguments.python)
    files = [name for name in arguments.only or FILES if os.path.exists(os.path.join(arguments.tests, name))]
    if not files:
        print(f"skipped: no tests of PyTorch's profiler in {arguments.tests}; run tests/torch_peers/fetch_tests.py")
        return 77
    arguments.torch = torch_version(arguments.python) if os.path.exists(arguments.python) else ""
    if not arguments.torch:
        print(f"skipped: {arguments.python} cannot import torch and pytest; run tests/torch_peers/fetch.py")
        return 77
    print(f"torch {arguments.torch}, tests of {arguments.tests}")
    asked = load_or_run(arguments, False, files)
    if arguments.seat:
        return compare(arguments, files, asked)
    print(f"all: {summarise(asked.values())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
