"""Finds, loads and attaches the bridge for the PyTorch of this process.

A bridge is built for one minor version and one ABI of std::string. It is chosen by version and opened with
all symbols resolved, which fails for a wrong one; then it tests itself before it records.
"""
import atexit
import ctypes
import os
import sys
import threading
from typing import Iterator, List, Optional, Tuple

from . import library
from .names import bridge_name, parse_minor

RECORDER, SEAT, GUEST = 1, 2, 4
_TEXT_BYTES = 512

_ON_DEMAND = ("CKINETO_CONTROL", "CKINETO_RING", "KINETO_USE_DAEMON")

_lock = threading.RLock()
_bridge = None  # ctypes.CDLL
_keep: List[object] = []  # callbacks that C holds
_failure: Optional[str] = None


class AttachError(Exception):
    """The bridge cannot be attached; the text is the reason and what to do."""


def _folders() -> List[str]:
    here = os.path.dirname(os.path.abspath(__file__))
    folders = [os.environ.get("CKINETO_BRIDGE_DIR", ""), os.path.join(here, "bridges")]
    return [f for f in folders if f and os.path.isdir(f)]


def has_kineto(torch) -> bool:
    """Was this PyTorch built with libkineto?"""
    try:
        return bool(torch.profiler.kineto_available())
    except Exception:
        return False


def likely_abi(torch) -> bool:
    """Is std::string that of C++11? Distributions use the compiler's default, and do not report it."""
    return bool(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))


def candidate_names(torch) -> List[str]:
    """File names of bridges that may fit, the likely one first. Raises AttachError."""
    kineto, likely = has_kineto(torch), likely_abi(torch)
    try:
        return [bridge_name(torch.__version__, abi, kineto) for abi in (likely, not likely)]
    except ValueError as error:
        raise AttachError(str(error))


def find_bridges(torch) -> Iterator[str]:
    """Paths of the bridges that may fit, in the order in which they are tried."""
    names = candidate_names(torch)
    for folder in _folders():
        for name in names:
            path = os.path.join(folder, name)
            if os.path.exists(path):
                yield path
    from . import build  # imported late: rarely needed

    cached = build.cached_path(torch, names[0])
    if os.path.exists(cached):
        yield cached


def _declare(bridge: ctypes.CDLL) -> ctypes.CDLL:
    text = [ctypes.c_char_p, ctypes.c_size_t]
    bridge.ckineto_torch_minor.restype = ctypes.c_int
    bridge.ckineto_torch_features.restype = ctypes.c_uint32
    bridge.ckineto_torch_attach_recorder.argtypes = [ctypes.c_void_p] + text
    bridge.ckineto_torch_counts.argtypes = [ctypes.POINTER(ctypes.c_uint64), ctypes.c_size_t]
    bridge.ckineto_torch_counts.restype = None
    bridge.ckineto_torch_release_memory.restype = None
    bridge.ckineto_torch_step_after.restype = None
    if bridge.ckineto_torch_features() & SEAT:
        bridge.ckineto_torch_attach_seat.argtypes = [ctypes.c_char_p] + text
        bridge.ckineto_torch_attach_guest.argtypes = [ctypes.c_char_p] + text
        if hasattr(bridge, "ckineto_torch_stop_daemon_client"):
            bridge.ckineto_torch_stop_daemon_client.argtypes = text
    return bridge


def _check_minor(bridge: ctypes.CDLL, torch, path: str) -> None:
    major, minor = parse_minor(torch.__version__)
    made_for = bridge.ckineto_torch_minor()
    if made_for != major * 100 + minor:
        raise AttachError("%s was built for PyTorch %d.%d, and this is %s" %
                          (path, made_for // 100, made_for % 100, torch.__version__))


def load_bridge(torch) -> ctypes.CDLL:
    """The bridge of this process. Raises AttachError."""
    global _bridge
    with _lock:
        if _bridge is not None:
            return _bridge
        library.load_rt()
        problems = []
        for path in find_bridges(torch):
            try:
                made = _declare(ctypes.CDLL(path, mode=os.RTLD_NOW))
                _check_minor(made, torch, path)
            except (OSError, AttributeError, AttachError) as error:
                problems.append(str(error))
                continue
            _bridge = made
            return _bridge
        raise AttachError(_explain_absence(torch, problems))


def _explain_absence(torch, problems: List[str]) -> str:
    if problems:
        return "no bridge fits PyTorch %s: %s" % (torch.__version__, "; ".join(problems))
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return ("no bridge for PyTorch %s; to build one with this PyTorch's headers (needs g++), run: "
            "PYTHONPATH=%s %s -m ckineto_attach.build" %
            (torch.__version__, folder, sys.executable or "python3"))


def _call(function, *arguments) -> None:
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    if function(*arguments, text, _TEXT_BYTES) != 0:
        raise AttachError(text.value.decode("utf-8", "replace"))


_observer_type = ctypes.PYFUNCTYPE(None, ctypes.c_int)


def attach_recorder() -> ctypes.CDLL:
    """Attach the recorder: operators of PyTorch are recorded in every session that selects them. Once per
    process; raises AttachError."""
    import torch

    from . import torch_hooks

    with _lock:
        bridge = load_bridge(torch)
        if not _keep:
            _keep.append(_observer_type(torch_hooks.on_recording))
            _call(bridge.ckineto_torch_attach_recorder, ctypes.cast(_keep[0], ctypes.c_void_p))
            atexit.register(bridge.ckineto_torch_detach_observer)
            torch_hooks.install(bridge)
        return bridge


def _full_library() -> bytes:
    return os.fsencode(library.find("libckineto.so.0"))


def attach_seat() -> ctypes.CDLL:
    """Let torch.profiler run on ckineto from now on. Raises AttachError."""
    import torch

    from . import seat_hooks, torch_hooks

    with _lock:
        bridge = load_bridge(torch)
        if not bridge.ckineto_torch_features() & SEAT:
            raise AttachError("this PyTorch has no libkineto that ckineto could replace; its operators "
                              "are recorded by 'ckineto record'")
        library.load_full()
        _call(bridge.ckineto_torch_attach_seat, _full_library())
        # Each hook is a frame in the stacks of torch.profiler: only where requests count iterations.
        if any(os.environ.get(name) for name in _ON_DEMAND):
            torch_hooks.install_steps(in_seat=True)
        seat_hooks.install()
        return bridge


def stop_daemon_client() -> None:
    """Stop libkineto's daemon client, since ckineto has its own. Raises AttachError."""
    import torch

    with _lock:
        bridge = load_bridge(torch)
        if not bridge.ckineto_torch_features() & SEAT:
            return  # this PyTorch has no libkineto
        if not hasattr(bridge, "ckineto_torch_stop_daemon_client"):
            raise AttachError("the bridge is older than ckineto_attach; build it again")
        _call(bridge.ckineto_torch_stop_daemon_client)


def attach_guest() -> ctypes.CDLL:
    """Let ckineto's plug-ins take part in libkineto's profiles from now on. Raises AttachError."""
    import torch

    from . import seat_hooks

    with _lock:
        bridge = load_bridge(torch)
        if not bridge.ckineto_torch_features() & GUEST:
            raise AttachError("this PyTorch has no libkineto to join")
        library.load_full()
        _call(bridge.ckineto_torch_attach_guest, _full_library())
        seat_hooks.show_devices()
        return bridge


def counts() -> dict:
    """Counts of the recorder, for tests and `ckineto doctor`."""
    names = ("starts", "stops", "registrations", "too_deep", "ended_elsewhere", "ended_unknown",
             "collectives", "memory")
    values = (ctypes.c_uint64 * len(names))()
    if _bridge is not None:
        _bridge.ckineto_torch_counts(values, len(names))
    return dict(zip(names, values))
