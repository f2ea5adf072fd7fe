"""Plug-in for pytest that writes the outcome of each test as a line of JSON to the file CKINETO_OUTCOMES.

A line is written when a test starts and when it has ended, and flushed, so that the file names the test that ended the
process. Used by run_suite.py with `pytest -p outcome_plugin`.

CKINETO_STAND_INS names modules, and names in modules (MODULE:NAME), that tests of another version of PyTorch import and
this version does not have. They are stood in for by empty classes, so that the tests which do not use them run.
"""

import importlib
import json
import os
import sys
import types
from typing import Any, Dict

_phases: Dict[str, Dict[str, Any]] = {}
_process = os.getpid()


def _write(**line: Any) -> None:
    if os.getpid() != _process:
        os._exit(1)  # a test has forked and its child got out of the test: it must not run the others, too
    with open(os.environ["CKINETO_OUTCOMES"], "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def pytest_runtest_logstart(nodeid: str, location: Any) -> None:
    """A test starts."""
    _phases[nodeid] = {"outcome": "passed", "seconds": 0.0, "reason": ""}
    _write(test=nodeid, started=True)


def pytest_runtest_logreport(report: Any) -> None:
    """One of the three phases of a test has ended; the first that did not pass decides."""
    result = _phases.setdefault(report.nodeid, {"outcome": "passed", "seconds": 0.0, "reason": ""})
    result["seconds"] += report.duration
    if result["outcome"] == "passed" and report.outcome != "passed":
        result["outcome"] = report.outcome
        result["reason"] = _reason(report)
    if hasattr(report, "wasxfail"):
        result["outcome"] = "xfailed" if report.outcome == "skipped" else "xpassed"


def pytest_runtest_logfinish(nodeid: str, location: Any) -> None:
    """All phases of a test have ended."""
    _write(test=nodeid, **_phases.pop(nodeid))


def pytest_collectreport(report: Any) -> None:
    """A file that cannot be imported has an outcome, too."""
    if report.outcome != "passed" and report.nodeid:
        _write(test=report.nodeid, outcome=report.outcome, seconds=0.0, reason=_reason(report))


def _reason(report: Any) -> str:
    """The line of a report that says why."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])[:400]
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message)[:2000] if crash else str(report.longrepr)[-2000:]


def _stand_in(name: str) -> type:
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {})


def _install_stand_ins(names: str) -> None:
    for module, _, name in (entry.partition(":") for entry in names.split(",") if entry):
        if name:
            setattr(importlib.import_module(module), name, _stand_in(name))
            continue
        made = types.ModuleType(module)
        made.__getattr__ = _stand_in  # type: ignore[method-assign]
        sys.modules[module] = made


_install_stand_ins(os.environ.get("CKINETO_STAND_INS", ""))
