"""`ckineto plugin check --torch`: does a plug-in record in a process with PyTorch?

    python3 plugin_check.py PLUGIN.so [--json]

PyTorch is imported and ckineto takes the place of libkineto; the plug-in is loaded, its
KinetoPlugin_exercise runs inside an operator of a torch.profiler profile, and PyTorch's result is checked.
Exit status: 0 nothing was found, 1 a rule is broken, 2 there was nothing that could be checked.
"""
import ctypes
import json
import os
import sys
import tempfile
from typing import Any, Dict, List, Tuple

COUNT = 96  # pieces of work requested from KinetoPlugin_exercise
OPERATOR = "PluginExercise"
RULES = (
    ("torch.load", "It can be loaded into a process with PyTorch.",
     "run 'ckineto plugin check' without --torch"),
    ("torch.exercise", "Its device works inside an operator of PyTorch while torch.profiler records.",
     "KinetoPlugin_exercise must return 0 on any thread and during a session"),
    ("torch.events", "Its activities are in the result of torch.profiler.",
     "run 'ckineto plugin check' without --torch; see the ledger of the exported trace"),
    ("torch.operator", "Its activities belong to the operator that launched them.",
     "keep the id of profilerPushCorrelationId for each thread and give it as externalId"),
    ("torch.export", "The exported trace is JSON and has the activities.",
     "report this to ckineto with the trace"),
    ("torch.again", "A second profile in the process has the activities, too.",
     "check the state that profilerStop and profilerDestroy leave for the next session"),
)
WORDS = {"ok": "ok", "failed": "FAILED", "untested": "not tested"}


class CannotCheck(Exception):
    """Nothing could be checked; the text is the reason."""


class ErrorText(ctypes.Structure):
    """kineto_error of ckineto/base.h."""

    _fields_ = [("code", ctypes.c_int), ("os_error", ctypes.c_int), ("offset", ctypes.c_uint64),
                ("message", ctypes.c_char * 488)]


def attach() -> Any:
    """PyTorch, with ckineto as its profiler. Raises CannotCheck."""
    for name in ("KINETO_PLUGIN_LIB_DIR_PATH", "CKINETO_SESSION", "CKINETO_CONTROL", "CKINETO_RING"):
        os.environ.pop(name, None)
    os.environ["CKINETO_TORCH"] = "0"  # attached here, so that a failure has a text
    try:
        import torch
    except Exception as error:
        raise CannotCheck("PyTorch cannot be imported by %s: %s" % (sys.executable, error))
    from ckineto_attach import torch_bridge

    try:
        torch_bridge.attach_seat()
    except (torch_bridge.AttachError, OSError) as error:
        raise CannotCheck(str(error))
    return torch


def load(path: str) -> str:
    """Load the plug-in. @return why it was refused; "" if it was not."""
    from ckineto_attach import library

    rt = library.load_rt()
    error = ErrorText()
    rt.kineto_plugin_load.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p]
    if rt.kineto_plugin_load(os.fsencode(path), None, ctypes.byref(error)) == 0:
        return ""
    return error.message.decode("utf-8", "replace") or "it was refused"


def find_exercise(path: str) -> Any:
    """KinetoPlugin_exercise of the plug-in; None without one."""
    return getattr(ctypes.CDLL(path), "KinetoPlugin_exercise", None)


def profile_exercise(torch: Any, exercise: Any, trace: str) -> Dict[str, Any]:
    """Profile the exercise inside an operator. @return its results."""
    from torch.autograd import DeviceType

    facts: Dict[str, Any] = {}

    def forward(context: Any, value: Any) -> Any:
        facts["result"] = exercise(COUNT)
        return value * 2

    operator = type(OPERATOR, (torch.autograd.Function,), {"forward": staticmethod(forward)})
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        operator.apply(torch.ones(2))
    events = profile.profiler.kineto_results.events()
    owners = {event.correlation_id() for event in events if event.name() == OPERATOR}
    work = [event for event in events if event.device_type() != DeviceType.CPU]
    facts["names"] = [event.name() for event in work]
    facts["linked"] = sum(event.linked_correlation_id() in owners for event in work)
    profile.export_chrome_trace(trace)
    return facts


def missing_in_trace(path: str, names: List[str]) -> str:
    """Describe the parts that the exported trace lacks; "": none."""
    try:
        with open(path, encoding="utf-8") as file:
            found = [event.get("name") for event in json.load(file)["traceEvents"]]
    except (OSError, ValueError, KeyError) as error:
        return "the trace cannot be read: %s" % error
    lacking = sorted(set(names) - set(found))
    return "the trace has no '%s'" % lacking[0] if lacking else ""


Verdicts = Dict[str, Tuple[str, str]]


def check_first(facts: Dict[str, Any], trace: str, verdicts: Verdicts) -> None:
    """Verdicts of the rules about one profile."""
    count = len(facts["names"])
    result = facts.get("result")
    verdicts["torch.exercise"] = ("ok", "") if result == 0 else (
        "failed", "KinetoPlugin_exercise returned %s" % result)
    verdicts["torch.events"] = ("ok", "%d activities of devices" % count) if count else (
        "failed", "there are none")
    if not count:
        return
    linked = facts["linked"]
    verdicts["torch.operator"] = ("ok" if linked == count else "failed",
                                  "%d of %d activities belong to it" % (linked, count))
    lacking = missing_in_trace(trace, facts["names"])
    verdicts["torch.export"] = ("failed", lacking) if lacking else ("ok", "")


def run(path: str, torch: Any) -> Verdicts:
    """Check all rules."""
    verdicts: Verdicts = {}
    refused = load(path)
    verdicts["torch.load"] = ("failed", refused) if refused else ("ok", "")
    exercise = None if refused else find_exercise(path)
    if exercise is None:
        why = "it cannot be loaded" if refused else "no events: it exports no KinetoPlugin_exercise"
        return {**{rule[0]: ("untested", why) for rule in RULES}, **verdicts}
    with tempfile.TemporaryDirectory(prefix="ckineto-check-") as folder:
        trace = os.path.join(folder, "trace.json")
        first = profile_exercise(torch, exercise, trace)
        check_first(first, trace, verdicts)
        if first["names"]:
            again = profile_exercise(torch, exercise, os.path.join(folder, "again.json"))
            verdicts["torch.again"] = ("ok" if again["names"] else "failed",
                                       "%d activities of devices" % len(again["names"]))
    return {**{rule[0]: ("untested", "see torch.events") for rule in RULES}, **verdicts}


def count_verdicts(verdicts: Verdicts) -> Tuple[int, int, int]:
    """Numbers of rules that hold, that are broken, and that were not tested."""
    words = [verdict for verdict, _ in verdicts.values()]
    return words.count("ok"), words.count("failed"), words.count("untested")


def print_text(path: str, version: str, verdicts: Verdicts) -> None:
    """The report for people."""
    print("%s\nPyTorch %s of %s\n" % (path, version, sys.executable))
    print("%-25s %-11s %s" % ("rule", "verdict", "observation"))
    for rule, text, hint in RULES:
        verdict, seen = verdicts[rule]
        print(("%-25s %-11s %s" % (rule, WORDS[verdict], seen)).rstrip())
        if verdict == "failed":
            print("%25s rule: %s\n%25s fix: %s" % ("", text, "", hint))
    ok, failed, untested = count_verdicts(verdicts)
    print("\n%d %s, %d failed, %d not tested: %s" % (
        ok, "rule holds" if ok == 1 else "rules hold", failed, untested,
        "it does not conform" if failed else "it conforms"))


def print_json(path: str, version: str, verdicts: Verdicts) -> None:
    """The report for programs."""
    ok, failed, untested = count_verdicts(verdicts)
    rules = []
    for rule, text, hint in RULES:
        verdict, seen = verdicts[rule]
        rules.append({"id": rule, "verdict": verdict, "seen": seen})
        if verdict == "failed":
            rules[-1].update(rule=text, hint=hint)
    print(json.dumps({"file": path, "torch": version, "conforms": failed == 0, "ok": ok, "failed": failed,
                      "untested": untested, "rules": rules}))


def main(arguments: List[str]) -> int:
    """The command line: see the text at the top."""
    report = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries is not part of the report
    sys.stdout = report
    path = os.path.abspath(arguments[0])
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    try:
        torch = attach()
    except CannotCheck as problem:
        sys.stderr.write("ckineto: plugin check: %s\n" % problem)
        return 2
    verdicts = run(path, torch)
    (print_json if "--json" in arguments[1:] else print_text)(path, torch.__version__, verdicts)
    sys.stdout.flush()
    return 1 if count_verdicts(verdicts)[1] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
