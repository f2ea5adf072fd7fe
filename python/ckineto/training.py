"""Recording some steps of a training, with a report at its end: what the callbacks of Lightning and Transformers in
integrations/ are made of, and loops of one's own:

    recorder = ckineto.TrainingRecorder("ckineto-run")
    for batch in loader:
        recorder.begin_step()
        train(batch)
    recorder.finish()
"""
import ctypes as C
import os
import pathlib
from typing import Any, List, Optional

from . import _attach, _functions, ranges
from .session import Recording
from .traces import Trace


def _rank() -> int:
    for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 0


def _set_marked(marked: bool) -> None:
    """While the recorder makes ranges "ProfilerStep#N", steps of optimizers make none."""
    mark = _functions.hot().kineto_rt_steps_marked
    mark.argtypes, mark.restype = [C.c_bool], None
    mark(marked)


class TrainingRecorder:
    """Records `steps` steps after `skip` others, which are slower than usual; then nothing is recorded any more.
    `finish` writes DIRECTORY/rank0.json.gz, each rank its own, and a report of it: DIRECTORY/rank0.html."""

    def __init__(self, directory: Any = "ckineto-run", *, skip: int = 3, steps: int = 20, report: bool = True,
                 **options: Any) -> None:
        if skip < 0 or steps < 1:
            raise ValueError("skip is 0 or more, steps is 1 or more, not %r and %r" % (skip, steps))
        self.directory = pathlib.Path(directory)
        self.trace: Optional[Trace] = None
        self.trace_path: Optional[pathlib.Path] = None
        self.report_path: Optional[pathlib.Path] = None
        self._skip, self._steps, self._report, self._options = skip, steps, report, options
        self._begun = 0
        self._recording: Optional[Recording] = None
        self._step: Any = None
        _attach.attach_recorder()  # before the loop: operators are recorded by what is attached then

    def begin_step(self) -> None:
        """A step begins: call it at the top of the loop."""
        if self.trace is not None:
            return
        self._begun += 1
        self._end_step()
        if self._begun > self._skip + self._steps:
            self._stop()
        elif self._begun > self._skip:
            if self._recording is None:
                self._recording = Recording(**self._options).start()
                _set_marked(True)
            self._step = ranges.range("ProfilerStep#%d" % self._begun)
            self._step.__enter__()

    def _end_step(self) -> None:
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None

    def _stop(self) -> None:
        self._end_step()
        if self._recording is not None:
            _set_marked(False)
            self.trace = self._recording.stop()
            self._recording.close()
            self._recording = None

    def finish(self) -> Optional[Trace]:
        """The training has ended: writes the files. The trace; None if there were too few steps to record any.
        It may be called again."""
        self._stop()
        if self.trace is None or self.trace_path is not None:
            return self.trace
        self.directory.mkdir(parents=True, exist_ok=True)
        name = "rank%d" % _rank()
        self.trace_path = self.directory / (name + ".json.gz")
        self.trace.save(self.trace_path, progress=False)
        if self._report:
            self.report_path = self.directory / (name + ".html")
            self.trace.report(self.report_path)
        return self.trace

    def summary(self) -> List[str]:
        """Lines for a log: the files, and the findings that would save most."""
        if self.trace_path is None or self.trace is None:
            return ["ckineto: no step was recorded: %d began, the first %d are skipped" % (self._begun, self._skip)]
        found = self.trace.findings()
        lines = ["ckineto: %s: %s" % (f.title, f.sentence) for f in found[:3]]
        return lines + ["ckineto: the trace is %s%s" % (self.trace_path, ", the report %s" % self.report_path
                                                        if self.report_path else "")]
