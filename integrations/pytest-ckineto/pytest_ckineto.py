"""Records tests with ckineto, and fails those that became slower than their baseline by more than noise.

A marked test is called several times, each call is a step of one trace. The first trace of a test becomes its
baseline; later ones are compared with it by `ckineto diff`.
"""
import contextlib
import hashlib
import html
import inspect
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

PROPERTY = "ckineto"  # of reports: what became of the comparison
MODES = ("compare", "update", "off")


def pytest_addoption(parser):
    group = parser.getgroup("ckineto")
    group.addoption("--ckineto", choices=MODES, default="compare",
                    help="compare marked tests with their baselines (the default), update the baselines, or off")
    parser.addini("ckineto_directory", "where traces of tests are kept", default=".ckineto")
    parser.addini("ckineto_gates", "gates of tests that give none", type="linelist", default=["step>25%"])


def pytest_configure(config):
    config.addinivalue_line("markers", "ckineto(*gates, repeat=5, functions=False): call the test `repeat` times, "
                                       "record it, and fail it if a gate such as 'step>25%' fails against its baseline")


def _command():
    """The command: $CKINETO, in PATH, or that of the module."""
    found = os.environ.get("CKINETO") or shutil.which("ckineto")
    return [found] if found else [sys.executable, "-m", "ckineto"]


def _file_name(node_id):
    """A name for the traces of a test, different for different tests."""
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", node_id)
    if name != node_id or len(name) > 150:
        name = name[-140:].lstrip("._") + "-" + hashlib.sha256(node_id.encode()).hexdigest()[:8]
    return name + ".json.gz"


def _plain_lines(comment):
    """The three lines of a comment in Markdown, for a terminal."""
    lines = comment.partition("<details>")[0].strip().splitlines()
    return [html.unescape(line).replace("**", "").replace("❌ ", "").strip() for line in lines]


class Check:
    """One recording of a test: `with check: with check.step(): …`, compared with its baseline at the end."""

    def __init__(self, item, gates, functions=False, name=""):
        self.item = item
        self.mode = item.config.getoption("--ckineto")
        self.gates = list(gates) or item.config.getini("ckineto_gates")
        self.steps = 0
        self._functions = functions
        self._recording = None
        directory = pathlib.Path(item.config.getini("ckineto_directory"))
        root = getattr(item.config, "rootpath", pathlib.Path.cwd())
        file = _file_name(item.nodeid + (":" + name if name else ""))
        self.baseline = root / directory / "baseline" / file
        self.current = root / directory / "current" / file

    def step(self):
        """A step of the test, as a context."""
        if not self._recording:
            return contextlib.nullcontext()
        import ckineto
        self.steps += 1
        return ckineto.range("ProfilerStep#%d" % self.steps)

    def __enter__(self):
        if self.mode != "off":
            import ckineto
            target = self.baseline if self.mode == "update" else self.current
            target.parent.mkdir(parents=True, exist_ok=True)
            self._recording = ckineto.record(target, python_functions=self._functions)
            self._recording.start()
        return self

    def __exit__(self, kind, error, traceback):
        if not self._recording:
            return
        recording, self._recording = self._recording, None
        recording.stop()
        recording.close()
        if kind is None:  # else the test failed by itself
            self._finish()

    def _note(self, text):
        self.item.user_properties.append((PROPERTY, text))

    def _finish(self):
        if self.mode == "update":
            self._note("baseline written")
        elif self.baseline.exists():
            self._compare()
        else:
            self.baseline.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.current, self.baseline)
            self._note("baseline written: there was none")

    def _compare(self):
        gates = ["--fail-on=" + gate for gate in self.gates]
        done = subprocess.run(_command() + ["diff", "--no-findings", "--markdown", "-", *gates, str(self.baseline),
                                            str(self.current)], capture_output=True, text=True, encoding="utf-8")
        lines = "".join("\n  " + line for line in _plain_lines(done.stdout))
        if done.returncode == 1:
            self._note("slower")
            pytest.fail("ckineto: slower than the baseline: %s%s\n  ckineto diff %s %s"
                        % (", ".join(self.gates), lines, self.baseline, self.current), pytrace=False)
        elif not done.stdout:
            pytest.fail("ckineto: " + (done.stderr.strip() or "no comparison"), pytrace=False)
        self._note("compared" if done.returncode == 0 else "not evaluated: too few steps, more noise than the limit, or a gate of an unknown name")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Calls a marked test several times. Others are left to pytest."""
    marker = pyfuncitem.get_closest_marker("ckineto")
    if not marker or pyfuncitem.config.getoption("--ckineto") == "off":
        return None
    options = dict(marker.kwargs)
    repeat, functions = options.pop("repeat", 5), options.pop("functions", False)
    if options:
        raise pytest.UsageError("ckineto: unknown arguments of the marker: " + ", ".join(sorted(options)))
    if not isinstance(repeat, int) or repeat < 1:
        raise pytest.UsageError("ckineto: repeat is a number of calls, not %r" % (repeat,))
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        raise pytest.UsageError("ckineto: the marker is for functions; use ckineto_check in a coroutine")
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters
                 if name in pyfuncitem.funcargs}
    pyfuncitem.obj(**arguments)
    with Check(pyfuncitem, marker.args, functions) as check:
        for _ in range(repeat):
            with check.step():
                pyfuncitem.obj(**arguments)
    return True


@pytest.fixture
def ckineto_check(request):
    """`with ckineto_check("step>25%") as check:` records and compares; `check.step()` marks a step. `name`
    distinguishes several in one test."""
    def begin(*gates, functions=False, name=""):
        return Check(request.node, gates, functions, name)
    return begin


def pytest_terminal_summary(terminalreporter):
    counts = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) != "call":
                continue
            for name, text in getattr(report, "user_properties", ()):
                if name == PROPERTY:
                    counts[text] = counts.get(text, 0) + 1
    if counts:
        terminalreporter.write_line("ckineto: " + ", ".join("%d %s" % (n, text) for text, n in sorted(counts.items())))
