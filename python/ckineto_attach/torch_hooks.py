"""The Python side of the recorder: annotations that PyTorch makes only for a profiler, modules, iterations,
and the removal of hooks for PyTorch's own profiler.

`install` is called once, after the recorder is attached; `on_recording` by the bridge, in the main
thread, when recording of operators begins and ends.
"""
import ctypes
import functools
import os
import sys
from typing import Any

from . import library

_state = {"installed": False, "recording": 0, "stacks": None, "steps": False, "seat": False,
          "marking": 0, "skipped": False, "requester": ""}


def _wants_functions() -> bool:
    return os.environ.get("CKINETO_PYTHON", "") not in ("", "0")


def prepare() -> None:
    """Load modules now that the first recording would load within its window. Never raises."""
    try:
        from . import stacks

        stacks.prepare()
    except Exception:
        pass


def _start_stacks() -> None:
    """Start the recorder of modules, and of Python functions if requested. Does nothing without it."""
    try:
        from . import stacks

        stacks.start(functions=_wants_functions(), modules=True)
        _state["stacks"] = stacks
    except Exception:
        _state["stacks"] = None


def _stop_stacks() -> None:
    stacks, _state["stacks"] = _state["stacks"], None
    if stacks is not None:
        stacks.stop()


def _set_profiler_flag(value: bool) -> None:
    """Compiled regions and the like are annotated only while this is set."""
    import torch.autograd.profiler as profiler

    if hasattr(profiler, "_is_profiler_enabled"):
        profiler._is_profiler_enabled = value


def _torch_profiler_runs() -> bool:
    import torch

    try:
        return bool(torch.autograd._profiler_enabled())
    except Exception:
        return False


def on_recording(recording: int) -> None:
    """Recording of operators began (1) or ended (0). Never raises."""
    try:
        if bool(recording) == bool(_state["recording"]):
            return
        _state["recording"] = recording
        if recording:
            _set_profiler_flag(True)
            _start_stacks()
        else:
            _stop_stacks()
            if not _torch_profiler_runs():
                _set_profiler_flag(False)
    except Exception:
        pass


def _keep_flag(function: Any) -> Any:
    """PyTorch's profiler resets the flag when it stops; while we record it stays."""

    def run_on_profiler_stop():
        function()
        if _state["recording"]:
            _set_profiler_flag(True)

    return run_on_profiler_stop


def _make_room(function: Any, bridge: ctypes.CDLL) -> Any:
    """The recorder's memory hook leaves the thread before PyTorch's profiler starts on it."""

    def enable_profiler(*arguments, **keywords):
        bridge.ckineto_torch_release_memory()
        return function(*arguments, **keywords)

    return enable_profiler


def _count_steps(function: Any, rt: ctypes.CDLL, bridge: Any) -> Any:
    """Make an iteration of PyTorch's step tracker one of ckineto. In the seat, PyTorch's function counts.
    Optimizers count within the range "Optimizer.step#…": the iteration begins when that has ended."""

    def kineto_step_mark(*arguments, **keywords):
        if not _state["seat"]:
            by_optimizer = bridge is not None and _state["requester"] != "ProfilerStep"
            (bridge.ckineto_torch_step_after if by_optimizer else rt.kineto_step_mark)()
        return function(*arguments, **keywords)

    return kineto_step_mark


def _replace(module: Any, name: str, wrap: Any, *arguments: Any) -> None:
    function = getattr(module, name, None)
    if function is not None:
        setattr(module, name, functools.wraps(function)(wrap(function, *arguments)))


def _counts_by_itself(profile: Any) -> bool:
    """Newer versions of torch.profiler count their steps only for a daemon."""
    asks = "KINETO_USE_DAEMON" in getattr(profile.step, "__code__", profile.step).co_consts
    return not asks or bool(os.environ.get("KINETO_USE_DAEMON"))


def _transit_and_count(function: Any, tracker: Any) -> Any:
    """In step() an iteration begins after the action of the schedule, and before "ProfilerStep#N" begins."""

    def _transit_action(self, *arguments, **keywords):
        result = function(self, *arguments, **keywords)
        if getattr(self, "_ckineto_steps", False):
            tracker.increment_step("ProfilerStep")
        return result

    return _transit_action


def _mark_step(function: Any) -> Any:
    def step(self, *arguments, **keywords):
        self._ckineto_steps = True
        try:
            return function(self, *arguments, **keywords)
        finally:
            self._ckineto_steps = False

    return step


def _begin_marks(function: Any, rt: ctypes.CDLL) -> Any:
    """A profile with a schedule makes ranges "ProfilerStep#N": meanwhile kineto_step_mark makes none, and
    iterations begin where they do."""

    def start(self, *arguments, **keywords):
        if getattr(self, "record_steps", False) and not getattr(self, "_ckineto_marks", False):
            self._ckineto_marks = True
            _state["marking"] += 1
            rt.kineto_rt_steps_marked(True)
        return function(self, *arguments, **keywords)

    return start


def _end_marks(function: Any, rt: ctypes.CDLL) -> Any:
    def stop(self, *arguments, **keywords):
        try:
            return function(self, *arguments, **keywords)
        finally:
            if getattr(self, "_ckineto_marks", False):
                self._ckineto_marks = False
                _state["marking"] -= 1
                _state["skipped"] = True
                rt.kineto_rt_steps_marked(False)

    return stop


def _follow_marks(tracker: Any) -> Any:
    """Optimizers do not count while a profile marks iterations: one would begin at the step of the optimizer,
    and the range of the profile a little later."""
    function = tracker.increment_step

    def increment_step(requester):
        if requester != "ProfilerStep" and _state["marking"] > 0:
            return tracker.current_step()
        if requester != "ProfilerStep" and _state["skipped"]:
            _state["skipped"] = False
            tracker.init_step_count(requester)
        _state["requester"] = requester
        return function(requester)

    return staticmethod(increment_step)


def _install_profile_steps(profiler: Any, rt: ctypes.CDLL) -> None:
    """torch.profiler's step(): counted, and marked once."""
    from torch.profiler.profiler import profile

    rt.kineto_rt_steps_marked.argtypes = [ctypes.c_bool]
    rt.kineto_rt_steps_marked.restype = None
    _replace(profile, "start", _begin_marks, rt)
    _replace(profile, "stop", _end_marks, rt)
    profiler.KinetoStepTracker.increment_step = _follow_marks(profiler.KinetoStepTracker)
    if not _counts_by_itself(profile):
        _replace(profile, "_transit_action", _transit_and_count, profiler.KinetoStepTracker)
        _replace(profile, "step", _mark_step)


def _count_optimizer_steps(profiler: Any) -> None:
    if os.environ.get("KINETO_USE_DAEMON"):
        return  # PyTorch has registered the same hook
    from torch.optim import optimizer

    register = getattr(optimizer, "register_optimizer_step_post_hook", None)
    if register is not None:
        register(lambda *_: profiler.KinetoStepTracker.increment_step("Optimizer") and None)


def install_steps(in_seat: bool = False, bridge: Any = None) -> None:
    """Optimizer steps and torch.profiler's step() count iterations, each iteration once. Once per process;
    a later call with in_seat leaves the counting to the seat."""
    import torch.autograd.profiler as profiler

    _state["seat"] = _state["seat"] or in_seat
    if _state["steps"] or not hasattr(profiler, "KinetoStepTracker"):
        return
    _state["steps"] = True
    rt = library.load_rt()
    _replace(profiler, "_kineto_step", _count_steps, rt, bridge)
    _count_optimizer_steps(profiler)
    _install_profile_steps(profiler, rt)


def _name_worker(function: Any, rt: ctypes.CDLL) -> Any:
    """Processes of a DataLoader's workers have the worker's number as their name. worker_id is the eleventh
    argument in 2.6 and in 2.15."""

    def _worker_loop(*arguments, **keywords):
        try:
            number = keywords.get("worker_id", arguments[10] if len(arguments) > 10 else None)
            if isinstance(number, int):
                rt.kineto_process_set_name(b"DataLoader worker %d" % number)
        except Exception:
            pass
        return function(*arguments, **keywords)

    return _worker_loop


def announce_rank() -> None:
    """The rank of this process in its job, from variables that launchers such as torchrun set."""
    try:
        rank, size = int(os.environ["RANK"]), int(os.environ.get("WORLD_SIZE", "1"))
    except (KeyError, ValueError):
        return
    rt = library.load_rt()
    rt.kineto_process_set_metadata(b"ckineto_rank", b'{"rank":%d,"world_size":%d}' % (rank, size))


def install(bridge: ctypes.CDLL, count_steps: bool = True) -> None:
    """Install the hooks; once per process."""
    if _state["installed"]:
        return
    _state["installed"] = True
    announce_rank()
    import torch.autograd.profiler as profiler

    _replace(profiler, "_enable_profiler", _make_room, bridge)
    _replace(profiler, "_run_on_profiler_stop", _keep_flag)
    worker = sys.modules.get("torch.utils.data._utils.worker")
    if worker is not None:
        _replace(worker, "_worker_loop", _name_worker, library.load_rt())
    if count_steps:
        install_steps(bridge=bridge)
    try:
        import torch.autograd.profiler_legacy as legacy

        _replace(legacy, "_enable_profiler_legacy", _make_room, bridge)
    except ImportError:
        pass
