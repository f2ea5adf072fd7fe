#!/usr/bin/env python3
"""Compare ckineto with libkineto on five small models (profiled_models.py).

    compare_profiles.py --python build/peers/torch-2.15.0/bin/python --out build/peers/models-2.15.0 \\
        --seat build/release/lib --recorder build/release/bin/ckineto

runs each model under torch.profiler with libkineto twice; what differs between these two runs is not asked of ckineto.
Then:
  --seat LIBDIR       torch.profiler runs on ckineto; tables, events, shapes, sequence numbers, parents, arguments,
                      flows and header of the trace are compared with libkineto's.
  --recorder CKINETO  `ckineto record -- python MODEL`, with torch.profiler active in the model: the operators in the
                      window must be those of torch.profiler one for one, by thread, in order, with names, parents,
                      shapes and sequence numbers.
A line is printed for each comparison, and the first differences of those that are not equal.

Exit status: 0 equal, 1 not, 2 wrong usage, 77 PyTorch is missing.
"""

import argparse
import collections
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Tuple

import profile_facts
import seat_environment

HERE = os.path.dirname(os.path.abspath(__file__))
# What is recorded in addition to operators. Python functions and allocations need not be in a model's process twice.
OPTIONS = {"cnn": ["--stack", "--memory"], "transformer": ["--memory"], "ddp": [], "compiled": [], "loader": []}
SHOWN = 12  # differences of a comparison that are printed
Facts = Dict[str, collections.Counter]


class Runs:
    """Runs of the models in one interpreter, and where their files are."""

    def __init__(self, arguments: argparse.Namespace, work: str):
        self.arguments = arguments
        self.work = work
        self.failures: List[str] = []

    def folder(self, model: str, run: str) -> str:
        return os.path.join(self.arguments.out, model, run)

    def environment(self, seat: bool) -> Dict[str, str]:
        """Environment without what a caller has set for ckineto, plus the seat's."""
        variables = {name: value for name, value in os.environ.items()
                     if not name.startswith(("CKINETO_", "KINETO_")) or name == "CKINETO_BRIDGE_DIR"}
        variables.update(CUDA_VISIBLE_DEVICES="", TORCHINDUCTOR_COMPILE_THREADS="1", PYTHONDONTWRITEBYTECODE="1",
                         TORCHINDUCTOR_CACHE_DIR=os.path.join(self.work, "inductor"))
        if seat:
            variables.update(seat_environment.seat_variables(self.arguments.seat, self.arguments.attach, self.work))
        else:
            variables["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        return variables

    def run(self, model: str, run: str, seat: bool = False, before: Tuple[str, ...] = ()) -> str:
        """Run a model; its folder, or an empty string if it failed (the reason is printed)."""
        folder = self.folder(model, run)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        environment = self.environment(seat)
        if before:
            environment.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
            environment.update(self.recorder_variables())
        command = [*before, self.arguments.python, os.path.join(HERE, "profiled_models.py"), model, folder]
        done = subprocess.run([*command, *OPTIONS[model]], env=environment, capture_output=True, text=True,
                              timeout=900, check=False, cwd=self.work)
        with open(os.path.join(folder, "output.txt"), "w", encoding="utf-8") as file:
            file.write(done.stdout + done.stderr)
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines()
            self.report(model, run, f"exit status {done.returncode}: {lines[-1] if lines else ''}")
            return ""
        return folder

    def recorder_variables(self) -> Dict[str, str]:
        """What `ckineto record` from a build folder needs to find this repository's Python package."""
        library = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(self.arguments.recorder))), "lib")
        variables = seat_environment.seat_variables(library, self.arguments.attach, self.work)
        variables.pop("CKINETO_TORCH")
        return variables

    def report(self, model: str, what: str, problem: str, details: Tuple[str, ...] = ()) -> None:
        """One line for one comparison: "equal", or what is not."""
        print(f"| {model} | {what} | {problem or 'equal'} |", flush=True)
        for detail in details[:SHOWN]:
            print(f"    {detail}")
        if len(details) > SHOWN:
            print(f"    and {len(details) - SHOWN} more")
        if problem:
            self.failures.append(f"{model}: {what}")


def read_facts(folder: str) -> List[Facts]:
    """Facts of each process of a run, in the order of ranks."""
    found = []
    for path in sorted(glob.glob(os.path.join(folder, "trace-*.json"))):
        facts = profile_facts.list_facts(profile_facts.load_trace(path))
        with open(path.replace("trace-", "averages-"), encoding="utf-8") as file:
            facts["key_averages"] = collections.Counter({(row[0], row[1]): row[2] for row in json.load(file)})
        found.append(facts)
    return found


def list_differences(asked: collections.Counter, measured: collections.Counter) -> List[str]:
    """What is not the same number of times in both, as lines."""
    keys = sorted(set(asked) | set(measured), key=str)
    return [f"{asked[key]} by libkineto, {measured[key]} by ckineto: {key}" for key in keys
            if asked[key] != measured[key]]


def compare_facts(runs: Runs, model: str, asked: List[Facts], again: List[Facts], measured: List[Facts]) -> None:
    """Facts of all processes. Keys about which libkineto's two runs differ are left out."""
    for what in asked[0]:
        details: List[str] = []
        total, varying = 0, 0
        for rank, (first, second, ours) in enumerate(zip(asked, again, measured)):
            stable = {key for key in set(first[what]) | set(second[what]) if first[what][key] == second[what][key]}
            unstable = (set(first[what]) | set(second[what])) - stable
            total, varying = total + len(stable), varying + len(unstable)
            left = collections.Counter({key: count for key, count in ours[what].items() if key not in unstable})
            details += [f"rank {rank}: {line}" for line in
                        list_differences(collections.Counter({key: first[what][key] for key in stable}), left)]
        note = f"{what}: {total} facts" + (f", {varying} vary with libkineto, too" if varying else "")
        runs.report(model, note, f"{len(details)} differ" if details else "", tuple(details))


def compare_seat(runs: Runs, model: str, seat: bool) -> None:
    """torch.profiler on libkineto, twice, and on ckineto (or on libkineto a third time)."""
    folders = [runs.run(model, "libkineto"), runs.run(model, "libkineto-again"),
               runs.run(model, "ckineto" if seat else "libkineto-third", seat)]
    if not all(folders):
        return
    try:
        asked, again, measured = [read_facts(folder) for folder in folders]
    except (ValueError, OSError) as error:
        runs.report(model, "traces", str(error))
        return
    if not len(asked) == len(again) == len(measured):
        runs.report(model, "number of traces", f"{len(asked)} by libkineto, {len(measured)} by ckineto")
        return
    compare_facts(runs, model, asked, again, measured)


def compare_recorder(runs: Runs, model: str) -> None:
    """`ckineto record` next to torch.profiler in the same processes."""
    recording = os.path.join(runs.work, f"{model}.json")
    command = (os.path.abspath(runs.arguments.recorder), "record", "--quiet", *runs.arguments.record_option, "-o",
               recording, "--")
    folder = runs.run(model, "recorded", before=command)
    if not folder:
        return
    try:
        trace = profile_facts.load_trace(recording)
        shutil.copy(recording, os.path.join(folder, "recording.json"))
        crossing = profile_facts.list_crossing_iterations(trace)
        runs.report(model, "recorder, iterations and steps of optimizers",
                    f"{len(crossing)} cross" if crossing else "", tuple(crossing))
        for path in sorted(glob.glob(os.path.join(folder, "trace-*.json"))):
            compare_window(runs, model, os.path.basename(path), profile_facts.load_trace(path), trace)
    except (ValueError, OSError) as error:
        runs.report(model, "recorder", str(error))


def compare_window(runs: Runs, model: str, name: str, profile: Dict[str, Any], recording: Dict[str, Any]) -> None:
    """Operators of one process in the window, thread by thread."""
    process = profile_facts.find_window(profile)["pid"]
    asked = profile_facts.window_operators(profile)
    measured = profile_facts.window_operators(recording, process)
    details: List[str] = []
    for thread, operators in sorted(asked.items()):
        details += [f"thread {thread}: {line}" for line in
                    list_sequence_differences(operators, measured.get(thread, []))]
    total = sum(map(len, asked.values()))
    extra = sum(len(found) for thread, found in measured.items() if thread not in asked)
    note = f"recorder, {name}: {total} operators in {len(asked)} threads"
    runs.report(model, note + (f"; {extra} more in threads that torch.profiler does not see" if extra else ""),
                f"{len(details)} differ" if details else "", tuple(details))


def list_sequence_differences(asked: List[profile_facts.Operator], measured: List[profile_facts.Operator]) -> List[str]:
    """Where two lists of operators differ. Different lengths: which operators there are more or fewer of."""
    if [operator.name for operator in asked] != [operator.name for operator in measured]:
        first, second = (collections.Counter(operator.name for operator in found) for found in (asked, measured))
        lines = [f"{len(asked)} by torch.profiler, {len(measured)} by ckineto, in another order"]
        return lines + [f"{first[key]} by torch.profiler, {second[key]} by ckineto: {key}"
                        for key in sorted(set(first) | set(second)) if first[key] != second[key]]
    lines = []
    for field in profile_facts.Operator._fields:
        pairs = [(one, other) for one, other in zip(asked, measured) if getattr(one, field) != getattr(other, field)]
        lines += [f"{field} ({len(pairs)} times), for example of {one.name}: {getattr(one, field)!r} by "
                  f"torch.profiler, {getattr(other, field)!r} by ckineto" for one, other in pairs[:3]]
    return lines


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", required=True, help="interpreter with PyTorch")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="where the traces are kept")
    parser.add_argument("--model", action="append", choices=sorted(OPTIONS), help="only these models")
    parser.add_argument("--seat", metavar="LIBDIR", help="folder of ckineto's libraries, for torch.profiler on ckineto")
    parser.add_argument("--recorder", metavar="CKINETO", help="the command ckineto, for `ckineto record`")
    parser.add_argument("--record-option", action="append", default=[], metavar="OPTION",
                        help="an option for `ckineto record`, for example --record-option=--shapes")
    parser.add_argument("--self", action="store_true", help="compare a third run by libkineto: tests this program")
    parser.add_argument("--attach", metavar="FOLDER", default=seat_environment.DEFAULT_ATTACH,
                        help="folder with the package ckineto_attach (default: this repository's python)")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    arguments.python, arguments.out = os.path.abspath(arguments.python), os.path.abspath(arguments.out)
    if not os.path.exists(arguments.python):
        print(f"skipped: {arguments.python} does not exist; run tests/torch_peers/fetch.py")
        return 77
    with tempfile.TemporaryDirectory(prefix="ckineto-models-") as work:
        runs = Runs(arguments, work)
        print("| model | compared | result |\n|---|---|---|")
        for model in arguments.model or OPTIONS:
            if arguments.seat or arguments.self:
                compare_seat(runs, model, bool(arguments.seat))
            if arguments.recorder:
                compare_recorder(runs, model)
    print(f"{len(runs.failures)} comparisons differ" if runs.failures else "all comparisons are equal")
    return 1 if runs.failures else 0


if __name__ == "__main__":
    sys.exit(main())
