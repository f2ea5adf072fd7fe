"""ckineto.profile: torch.profiler.profile by arguments and methods, on ckineto's own recorder.

Schedule, cycles and steps are those of include/ckineto/profile.h. All threads are recorded, those of
autograd included. Operators of PyTorch come from the bridge of ckineto_attach; ranges and plug-ins need
no PyTorch.
"""
import ctypes as C
import json
import os
import warnings
import weakref
from typing import Any, Callable, Dict, Iterable, List, Optional

from . import _attach, _functions, errors, ranges
from . import _structs as S
from ._declarations import EVENT_ACCESSORS
from ._handles import Handle
from .activities import ProfilerAction, ProfilerActivity, action_number, activity_set
from .schedules import Schedule
from .session import load_plugin
from .summary import Averages, EventList, FunctionEventAvg, save_chrome_trace
from .traces import Trace

_RECORD_AND_SAVE = ProfilerAction.RECORD_AND_SAVE.value
_RECORDING = (ProfilerAction.RECORD.value, _RECORD_AND_SAVE)
_TRACING = (ProfilerAction.WARMUP.value,) + _RECORDING
_STATE_KINETO = 6

# Arguments of torch._C._profiler._ExperimentalConfig, in their order.
_EXPERIMENTAL: Dict[str, Any] = {
    "profiler_metrics": (), "profiler_measure_per_kernel": False, "verbose": False,
    "performance_events": (), "enable_cuda_sync_events": False, "adjust_profiler_step": False,
    "disable_external_correlation": False, "profile_all_threads": True,
    "capture_overload_names": False, "record_python_gc_info": False,
    "expose_kineto_event_metadata": False, "custom_profiler_config": "", "adjust_timestamps": False,
    "trace_only": False,
}


class ExperimentalConfig:
    """Rarely needed options: the arguments of torch.profiler._ExperimentalConfig."""

    def __init__(self, *positional: Any, **given: Any) -> None:
        values = dict(_EXPERIMENTAL)
        values.update(zip(_EXPERIMENTAL, positional))
        for name, value in given.items():
            if name not in _EXPERIMENTAL:
                raise TypeError("ExperimentalConfig got an unexpected keyword argument %r" % name)
            values[name] = value
        self.__dict__.update(values)


def _texts(values: Iterable[str]) -> Any:
    encoded = [_functions.text_of(value) for value in values]
    return (C.c_char_p * max(len(encoded), 1))(*encoded), len(encoded)


def _take_experimental(config: Any) -> Dict[str, Any]:
    """The options of a config of ckineto or of PyTorch, which exposes them to pickle only."""
    if config is None:
        return {}
    if hasattr(config, "profile_all_threads"):
        return {name: getattr(config, name, default) for name, default in _EXPERIMENTAL.items()}
    try:
        state = config.__getstate__()
    except Exception:
        state = ()
    # PyTorch 2.15 has no profiler_metrics and profiler_measure_per_kernel any more.
    names = list(_EXPERIMENTAL)
    names = names if state and isinstance(state[0], (list, tuple)) else names[2:]
    return dict(zip(names, state))


class ExecutionTraceObserver:
    """Writes the graph of operators of each cycle in Chakra's schema: give it to `profile` as
    execution_trace_observer after `register_callback(path)`."""

    def __init__(self) -> None:
        self._path: Any = None

    def register_callback(self, output_file_path: Any) -> "ExecutionTraceObserver":
        self._path = output_file_path
        return self

    def unregister_callback(self) -> None:
        self._path = None

    @property
    def is_registered(self) -> bool:
        return self._path is not None

    def get_output_file_path(self) -> Any:
        return self._path

    def start(self) -> None:
        """Nothing: operators are recorded by the profile itself."""

    def stop(self) -> None:
        """Nothing, likewise."""

    def cleanup(self) -> None:
        self.unregister_callback()


class _Callbacks:
    """The callbacks of the C profile. Exceptions are kept, and raised when the call into C has returned."""

    def __init__(self, profile: "profile") -> None:
        self._profile = weakref.ref(profile)
        self.raised: List[BaseException] = []
        self.ready = S.PROFILE_READY(self._on_ready)
        self.action = S.PROFILE_ACTION(self._on_action)
        self.make_id = S.PROFILE_MAKE_ID(self._on_make_id)

    def _on_ready(self, handle: int, user: Any, info: Any) -> int:
        profile = self._profile()
        if profile is None:
            return 0
        try:
            profile._cycle_ready()
            return 0
        except BaseException as error:
            self.raised.append(error)
            return -5

    def _on_action(self, step: int, user: Any) -> int:
        profile = self._profile()
        try:
            return action_number(profile.schedule(step)) if profile is not None else 0
        except BaseException as error:
            self.raised.append(error)
            return 0

    def _on_make_id(self, out: int, size: int, user: Any) -> None:
        profile = self._profile()
        try:
            callback = profile.custom_trace_id_callback if profile is not None else None
            text = str(callback()) if callback is not None else _random_id()
        except BaseException as error:
            self.raised.append(error)
            text = _random_id()
        encoded = text.encode("utf-8", "replace").replace(b"\0", b"")[:size - 1]
        C.memmove(out, encoded + b"\0", len(encoded) + 1)

    def call(self, function: Any, *arguments: Any) -> None:
        self.raised.clear()
        try:
            _functions.call(function, *arguments)
        except errors.Error:
            if not self.raised:
                raise
        if self.raised:
            raise self.raised.pop(0)


def _random_id() -> str:
    import uuid

    return uuid.uuid4().hex.upper()


class profile(Handle):
    """Profile a program in steps: change the import from torch.profiler to ckineto.

        with ckineto.profile(schedule=ckineto.schedule(wait=1, warmup=1, active=3),
                             on_trace_ready=ckineto.tensorboard_trace_handler("log")) as prof:
            for batch in loader:
                train(batch)
                prof.step()
        print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))

    Beyond PyTorch's arguments: `buffer`, memory for what is recorded (bytes, or "256M"; default 64M).
    post_processing_timeout_s is accepted, and not needed: nothing is built until it is looked at.
    """

    def __init__(self, *, activities: Optional[Iterable[Any]] = None,
                 schedule: Optional[Callable[[int], Any]] = None,
                 on_trace_ready: Optional[Callable[..., Any]] = None, record_shapes: bool = False,
                 profile_memory: bool = False, with_stack: bool = False, with_flops: bool = False,
                 with_modules: bool = False, experimental_config: Any = None,
                 execution_trace_observer: Any = None, acc_events: bool = False,
                 use_cuda: Optional[bool] = None,
                 custom_trace_id_callback: Optional[Callable[[], str]] = None,
                 post_processing_timeout_s: Optional[float] = None, buffer: Any = None) -> None:
        self.schedule = schedule if schedule is not None else _record_always
        self.on_trace_ready = on_trace_ready
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.with_flops, self.with_modules = with_stack, with_flops, with_modules
        self.experimental_config = experimental_config
        self.execution_trace_observer = execution_trace_observer
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.record_steps = schedule is not None
        self._mask = _with_cuda(activity_set(activities), use_cuda)
        collections = _take_experimental(experimental_config).get("record_python_gc_info", False)
        self._stacks = _attach.Stacks(with_stack, with_stack or with_modules, bool(collections),
                                      c_functions=with_stack)
        self._has_tracer = with_stack and self._stacks.is_available()
        self._observing = False
        self._cached: Any = None
        self._lib = _functions.full()
        self._callbacks = _Callbacks(self)
        handle = self._create(schedule, buffer)
        super().__init__(handle, self._lib.kineto_profile_run_destroy, self._callbacks)
        if self._has_tracer:
            self.preset_metadata_json("with_stack", "1")

    # ---- making it

    def _create(self, schedule: Any, buffer: Any) -> int:
        config = self._make_config(buffer)
        options = S.ProfileOptions(
            config=C.pointer(config), activities=self._mask, on_trace_ready=self._callbacks.ready,
            make_trace_id=self._callbacks.make_id, acc_events=bool(self.acc_events))
        if isinstance(schedule, Schedule):
            options.schedule = C.pointer(schedule._c)
        elif schedule is not None:
            options.action = self._callbacks.action
        return _functions.make(self._lib.kineto_profile_run_create, C.byref(options))

    def _make_config(self, buffer: Any) -> S.ProfilerConfig:
        """The C config. Operators have no native stacks if functions of Python are recorded."""
        wishes = _take_experimental(self.experimental_config)
        metrics, metric_count = _texts(wishes.pop("profiler_metrics", ()))
        counters, counter_count = _texts(wishes.pop("performance_events", ()))
        text = _functions.text_of(wishes.pop("custom_profiler_config", "") or None)
        experimental = S.ExperimentalConfig(
            profiler_metrics=metrics, profiler_metric_count=metric_count, performance_events=counters,
            performance_event_count=counter_count, custom_profiler_config=text,
            **{name: bool(value) for name, value in wishes.items()})
        experimental.profile_all_threads = True
        return S.ProfilerConfig(
            state=_STATE_KINETO, report_input_shapes=self.record_shapes,
            profile_memory=self.profile_memory, with_stack=self.with_stack and not self._has_tracer,
            with_flops=self.with_flops, with_modules=self.with_modules, experimental=experimental,
            buffer_bytes=_functions.parse_bytes(buffer, "buffer"),
            record_tensor_ids=isinstance(self.execution_trace_observer, ExecutionTraceObserver))

    # ---- running it

    def start(self) -> None:
        """Begin, with the step that it is at."""
        ranges.is_recording()  # loaded before recording begins, so that its import is not in the trace
        self._load_plugins()
        _attach.attach_recorder()
        self._add_distributed_info()
        self._stacks.turn(True)  # before the first step, which may be recorded
        try:
            self._callbacks.call(self._lib.kineto_profile_run_start, self._c)
        finally:
            self._follow_action()

    def step(self) -> None:
        """A step is over and the next one begins."""
        self._leave_cycle()
        try:
            self._callbacks.call(self._lib.kineto_profile_run_step, self._c)
        finally:
            self._follow_action()

    def stop(self) -> None:
        """End the run; a cycle that has recorded something goes to on_trace_ready."""
        self._observe(False)
        self._stacks.turn(False)
        self._callbacks.call(self._lib.kineto_profile_run_stop, self._c)

    def __enter__(self) -> "profile":
        self.start()
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.stop()

    def _leave_cycle(self) -> None:
        if self._lib.kineto_profile_run_current_action(self._c) == _RECORD_AND_SAVE:
            self._observe(False)

    def _follow_action(self) -> None:
        """Start and stop the tracer of functions and the observer of execution traces in the steps of the
        profile. The tracer of functions begins with the warm-up step, so that its start is not in a recorded
        step; without a session it records nothing."""
        action = self._lib.kineto_profile_run_current_action(self._c)
        self._stacks.turn(action in _TRACING)
        self._observe(action in _RECORDING)

    def _observe(self, on: bool) -> None:
        observer = self.execution_trace_observer
        if observer is None or on == self._observing:
            return
        self._observing = on
        (observer.start if on else observer.stop)()

    def _load_plugins(self) -> None:
        cuda = 1 << ProfilerActivity.CUDA.value
        wanted = ["cuda"] if self._mask & cuda else [] if self._mask else _attach.device_plugins()
        for name in wanted:
            try:
                load_plugin(name)
            except errors.Error as error:
                _attach._warn_once("work of the device is not recorded", error)

    def _add_distributed_info(self) -> None:
        info = _attach.distributed_info()
        if info:
            self.preset_metadata_json("distributedInfo", json.dumps(info, default=str))

    def _cycle_ready(self) -> None:
        """A cycle is complete: called by C, within step() or stop()."""
        self._warn_of_loss()
        observer = self.execution_trace_observer
        if isinstance(observer, ExecutionTraceObserver) and observer.is_registered:
            self.export_execution_trace(observer.get_output_file_path())
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _warn_of_loss(self) -> None:
        current = self._current()
        lost = current[0].lost if current and current[0] else 0
        if lost:
            warnings.warn("ckineto: %d events are missing from this profile; prof.trace.ledger says why. "
                          "If the buffer was full, give more: profile(buffer=\"512M\")" % lost,
                          RuntimeWarning, stacklevel=5)

    # ---- where it is

    @property
    def step_num(self) -> int:
        return int(self._lib.kineto_profile_run_step_number(self._c))

    @property
    def current_action(self) -> ProfilerAction:
        return ProfilerAction(self._lib.kineto_profile_run_current_action(self._c))

    @property
    def activities(self) -> Any:
        """The groups that are profiled, as a set."""
        mask = self._mask or (1 << len(ProfilerActivity)) - 1
        return {activity for activity in ProfilerActivity if mask >> activity.value & 1}

    @property
    def discarded(self) -> int:
        """Events of cycles that the schedule ended before they were complete."""
        return int(self._lib.kineto_profile_run_discarded(self._c))

    def get_trace_id(self) -> Optional[str]:
        """Id of the cycle that is prepared or recorded, else of the last one; None before the first."""
        return self._lib.kineto_profile_run_trace_id(self._c).decode("utf-8", "replace") or None

    def set_custom_trace_id_callback(self, callback: Optional[Callable[[], str]]) -> None:
        """Set a function that returns the id of each following cycle."""
        self.custom_trace_id_callback = callback

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[Any]) -> None:
        """Pause and resume within a cycle. Any activities pause all: effects without their causes would be
        useless. Does nothing while no cycle is recorded, as in PyTorch."""
        activity_set(activities)  # raises if it is none
        if self._lib.kineto_profile_run_current_action(self._c) in _RECORDING:
            _functions.call(self._lib.kineto_profile_run_pause, self._c, not enable)

    # ---- what comes out

    @property
    def trace(self) -> Optional[Trace]:
        """The trace of the last cycle; None before the first."""
        events = self._current()
        return events[0] if events else None

    def _current(self) -> Any:
        """(trace, start of recording, result, number of cycles) that summaries are computed from."""
        result = self._lib.kineto_profile_run_result(self._c)
        count = int(self._lib.kineto_profile_run_cycle_count(self._c))
        if not result:
            return None
        if self._cached is None or self._cached[2]._handle != result or self._cached[3] != count:
            owned = Handle(self._lib.kineto_profiler_result_retain(result), self._lib.kineto_profiler_result_release)
            borrowed = self._lib.kineto_profiler_result_trace(result)
            trace = Trace(self._lib.kineto_trace_retain(borrowed)) if borrowed else None
            self._cached = [trace, int(self._lib.kineto_profiler_result_start_ns(result)), owned, count, None]
        return self._cached

    def _need(self) -> Any:
        current = self._current()
        if current is None or current[0] is None:
            raise errors.make_error(-5, "the profile run has no complete cycle yet")
        return current

    def events(self) -> EventList:
        """Functions of the last cycle, or with acc_events of all; computed on first use."""
        current = self._need()
        if current[4] is None:
            current[4] = self._make_events(current)
        return current[4]

    def _make_events(self, current: Any) -> EventList:
        if current[3] == 1:
            made = _functions.make(self._lib.kineto_profile_run_events, self._c)
            return EventList(made, current[0], current[1])
        trace = self._merge_cycles(current[3])
        made = _functions.make(self._lib.kineto_function_events_create, trace._c, None)
        first = self._lib.kineto_profile_run_cycle(self._c, 0)
        return EventList(made, trace, int(self._lib.kineto_profiler_result_start_ns(first)))

    def _merge_cycles(self, count: int) -> Trace:
        cycles = [self._lib.kineto_profile_run_cycle(self._c, i) for i in range(count)]
        traces = (C.c_void_p * count)(*[self._lib.kineto_profiler_result_trace(cycle) for cycle in cycles])
        return Trace(_functions.make(self._lib.kineto_trace_merge, traces, count, None))

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name: bool = False,
                     include_python_functions: bool = False) -> Averages:
        """Functions grouped by name, and by shapes or stack if requested, with their sums."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n,
                                          group_by_overload_name, include_python_functions)

    def total_average(self) -> FunctionEventAvg:
        return self.events().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        return self.events().self_cpu_time_total

    @property
    def profiler(self) -> "_Profiler":
        """Events and results of the last cycle, as the attribute of torch.profiler.profile."""
        return _Profiler(self)

    def export_chrome_trace(self, path: Any) -> None:
        """Write the trace of the last cycle; it can be called repeatedly. The format follows the ending:
        ".json", ".json.gz", ".pftrace" …; unknown endings mean Chrome JSON."""
        save_chrome_trace(self._need()[0], path)

    def export_stacks(self, path: Any, metric: str = "self_cpu_time_total") -> None:
        """Write folded stacks, the input of flame graphs."""
        if not self.with_stack:
            raise errors.make_error(-5, "export_stacks() requires with_stack=True")
        self.events().export_stacks(path, metric)

    def export_memory_timeline(self, path: Any, device: Optional[str] = None) -> None:
        """Memory over time: ".html", ".json" or ".raw.json", and ".gz"."""
        _functions.call(self._lib.kineto_profile_run_export_memory_timeline, self._c,
                        _functions.path_of(path), _functions.text_of(device))

    def export_execution_trace(self, path: Any) -> None:
        """Operators of the last cycle as a graph, in Chakra's schema."""
        _functions.call(self._lib.kineto_profile_run_export_execution_trace, self._c,
                        _functions.path_of(path))

    def save_tensorboard(self, directory: Any, worker: Optional[str] = None,
                         use_gzip: bool = False) -> str:
        """Write the last cycle into the folder layout of TensorBoard's plug-in. @return the path."""
        where = S.Tensorboard(directory=_functions.path_of(directory), gzip=use_gzip,
                              worker=_functions.text_of(worker))
        path = C.create_string_buffer(4096)
        _functions.call(self._lib.kineto_profile_run_save_tensorboard, self._c, C.byref(where), path,
                        len(path))
        return os.fsdecode(path.value)

    # ---- the header

    def add_metadata(self, key: str, value: str) -> None:
        """Put a key and a text into the header of the cycle that is recorded, or of the next one."""
        self._put(self._lib.kineto_profile_run_add_metadata, key, value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """The same with a JSON value."""
        self._put(self._lib.kineto_profile_run_add_metadata_json, key, value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """The same for all cycles from now on."""
        self._put(self._lib.kineto_profile_run_preset_metadata_json, key, value)

    def _put(self, function: Any, key: str, value: str) -> None:
        _functions.call(function, self._c, _functions.text_of(key), _functions.text_of(value))

    def __repr__(self) -> str:
        if self.closed:
            return "<ckineto.profile (closed)>"
        return "<ckineto.profile: step %d, %s>" % (self.step_num, self.current_action.name)


def _record_always(step: int) -> ProfilerAction:
    """The schedule of a profile without one: it always records."""
    return ProfilerAction.RECORD


def _with_cuda(mask: int, use_cuda: Optional[bool]) -> int:
    if use_cuda is None:
        return mask
    warnings.warn("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning,
                  stacklevel=3)
    cuda, every = 1 << ProfilerActivity.CUDA.value, (1 << len(ProfilerActivity)) - 1
    return (mask or every) | cuda if use_cuda else (mask or every) & ~cuda


class KinetoEvent:
    """One activity with the methods of PyTorch's KinetoEvent."""

    def __init__(self, keep: Any, event: S.Event) -> None:
        self._keep, self._event = keep, event

    def __getattr__(self, name: str) -> Callable[[], Any]:
        if name not in EVENT_ACCESSORS:
            raise AttributeError("KinetoEvent has no method %r" % name)
        function = getattr(_functions.full(), "kineto_event_" + name)

        def read() -> Any:
            value = function(C.byref(self._event)) if self._keep._c else None
            return value.text() if isinstance(value, S.String) else value

        return read


class _KinetoResults:
    """The interface of torch's kineto_results."""

    def __init__(self, result: Handle) -> None:
        self._result = result

    def trace_start_ns(self) -> int:
        return int(_functions.full().kineto_profiler_result_start_ns(self._result._c))

    def events(self) -> List[KinetoEvent]:
        lib, out = _functions.full(), []
        for index in range(lib.kineto_profiler_result_event_count(self._result._c)):
            event = S.Event()
            lib.kineto_profiler_result_event(self._result._c, index, C.byref(event))
            out.append(KinetoEvent(self._result, event))
        return out

    def save(self, path: Any) -> None:
        _functions.call(_functions.full().kineto_profiler_result_save, self._result._c,
                        _functions.path_of(path))


class _Profiler:
    """The property `profiler`, for code written for torch.autograd.profiler.profile."""

    def __init__(self, owner: profile) -> None:
        self._owner = owner

    @property
    def function_events(self) -> EventList:
        return self._owner.events()

    @property
    def kineto_results(self) -> _KinetoResults:
        return _KinetoResults(self._owner._need()[2])

    @property
    def self_cpu_time_total(self) -> float:
        return self._owner.self_cpu_time_total

    def key_averages(self, *args: Any, **kwargs: Any) -> Averages:
        return self._owner.key_averages(*args, **kwargs)

    def total_average(self) -> FunctionEventAvg:
        return self._owner.total_average()

    def table(self, *args: Any, **kwargs: Any) -> str:
        return self._owner.events().table(*args, **kwargs)

    def export_chrome_trace(self, path: Any) -> None:
        self._owner.export_chrome_trace(path)

    def export_stacks(self, path: Any, metric: str = "self_cpu_time_total") -> None:
        self._owner.export_stacks(path, metric)


def tensorboard_trace_handler(dir_name: Any, worker_name: Optional[str] = None,
                              use_gzip: bool = False) -> Callable[[profile], None]:
    """For on_trace_ready: writes "<worker>.<time>.pt.trace.json" into a directory, which is made."""

    def handle(prof: profile) -> None:
        prof.save_tensorboard(dir_name, worker_name, use_gzip)

    return handle
