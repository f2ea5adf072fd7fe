"""Replacements of Python functions of PyTorch's profiler, for the seat and for devices of plug-ins.

  - export_chrome_trace("x.json.gz") writes a text to a temporary file and compresses it in Python; the
    seat writes compressed files by itself.
  - Tables have columns of device time only if a device of PyTorch's was profiled; work of plug-ins
    gets these columns too, whatever activities the profile was made for.
"""
import functools
import warnings
from typing import Any, Callable

DEVICE = "device"  # the word in the tables, "Self DEVICE"; it has no module in torch

_state = {"exports": False, "devices": False}


def _save_directly(original: Callable) -> Callable:
    """export_chrome_trace of torch.profiler: without a temporary file, if only a path is given."""

    @functools.wraps(original)
    def export_chrome_trace(self, path, *arguments, **options):
        profiler = getattr(self, "profiler", None)
        is_ours = isinstance(path, str) and path.endswith(".json.gz")
        if not is_ours or arguments or options or profiler is None or getattr(self, "_use_cuspy", False):
            return original(self, path, *arguments, **options)
        return profiler.export_chrome_trace(path)

    return export_chrome_trace


def _has_device_work(result: Any) -> bool:
    from torch.autograd import DeviceType

    return any(event.device_type() != DeviceType.CPU for event in result.events())


def _show_devices(original: Callable) -> Callable:
    """Parsing of a profile's events: events of devices count, even if no device was requested."""

    @functools.wraps(original)
    def _parse_kineto_results(self, result, *arguments, **options):
        if self.use_device is None and _has_device_work(result):
            self.use_device = DEVICE
        return original(self, result, *arguments, **options)

    return _parse_kineto_results


def show_devices() -> None:
    """Tables show the time of plug-ins' devices from now on. Once per process."""
    import torch.autograd.profiler as profiler

    if not _state["devices"]:
        _state["devices"] = True
        profiler.profile._parse_kineto_results = _show_devices(profiler.profile._parse_kineto_results)


def install() -> None:
    """For the seat: exports without a detour, tables with devices. Once per process."""
    import torch.profiler.profiler as profiler

    show_devices()
    if not _state["exports"]:
        _state["exports"] = True
        holder = profiler._KinetoProfile
        holder.export_chrome_trace = _save_directly(holder.export_chrome_trace)


def _warn_once(original: Callable, text: str) -> Callable:
    warned = []

    @functools.wraps(original)
    def start(self, *arguments, **options):
        if not warned:
            warned.append(True)
            try:
                warnings.warn(text, RuntimeWarning, stacklevel=3)
            except Warning:  # -W error: the program would not fail without ckineto either
                pass
        return original(self, *arguments, **options)

    return start


def warn_at_start(text: str) -> None:
    """Let the first profile of this process warn that it does not run on ckineto."""
    import torch.autograd.profiler as profiler

    for name in ("_start_trace", "__enter__"):  # the former is what torch.profiler calls
        if hasattr(profiler.profile, name):
            setattr(profiler.profile, name, _warn_once(getattr(profiler.profile, name), text))
            return
