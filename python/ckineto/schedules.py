"""Schedules of the steps that are recorded: torch.profiler.schedule, computed by the C library."""
import ctypes as C

from . import _functions, errors
from . import _structs as S
from .activities import ProfilerAction


class Schedule:
    """The action of each step: `schedule(7)` is a ProfilerAction."""

    def __init__(self, skip_first: int, wait: int, warmup: int, active: int, repeat: int,
                 skip_first_wait: int) -> None:
        given = dict(skip_first=skip_first, wait=wait, warmup=warmup, active=active, repeat=repeat,
                     skip_first_wait=skip_first_wait)
        for name, value in given.items():
            if int(value) < 0:
                raise errors.make_error(-1, "schedule: %s must not be negative, it is %r" % (name, value))
        self._c = S.Schedule(**{name: int(value) for name, value in given.items()})
        warning = C.c_char_p()
        _functions.call(_functions.full().kineto_schedule_check, C.byref(self._c), C.byref(warning))

    def __call__(self, step: int) -> ProfilerAction:
        return ProfilerAction(_functions.full().kineto_schedule_action(C.byref(self._c), step))

    def __repr__(self) -> str:
        return "ckineto.schedule(%s)" % ", ".join(
            "%s=%d" % (field[0], getattr(self._c, field[0])) for field in S.Schedule._fields_[1:])


def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
             skip_first_wait: int = 0) -> Schedule:
    """Skip `skip_first` steps, then in cycles wait, warm up, record; `repeat` cycles, 0: without end.
    With `skip_first_wait` the first cycle does not wait."""
    return Schedule(skip_first, wait, warmup, active, repeat, skip_first_wait)
