"""Finds, loads and attaches the bridge for the PyTorch of this process.

A bridge fits one minor version and one ABI of std::string. It is chosen by version, opened with all
symbols resolved (one that does not fit fails there), and tests itself before it records.
"""
import atexit
import ctypes
import hashlib
import os
import subprocess
import sys
import threading
from typing import List, Optional, Tuple

from . import build, library

RECORDER, SEAT, GUEST = 1, 2, 4
_TEXT_BYTES = 512

_ON_DEMAND = ("CKINETO_CONTROL", "CKINETO_RING", "KINETO_USE_DAEMON")

_lock = threading.RLock()
_bridge = None  # ctypes.CDLL
_keep: List[object] = []  # callbacks that C holds
_failure: Optional[str] = None


class AttachError(Exception):
    """The bridge cannot be attached; the text says why and what to do."""


def _folders() -> List[str]:
    here = os.path.dirname(os.path.abspath(__file__))
    folders = [os.environ.get("CKINETO_BRIDGE_DIR", ""), os.path.join(here, "bridges")]
    return [f for f in folders if f and os.path.isdir(f)]


def cache_folder() -> str:
    """Where bridges are kept that were built at first use."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "ckineto", "bridges")


def has_kineto(torch) -> bool:
    """Was this PyTorch built with libkineto?"""
    try:
        return bool(torch.profiler.kineto_available())
    except Exception:
        return False


def _abis(torch) -> Tuple[bool, bool]:
    """ABIs to try, the likely one first: distributions set the compiler's and say nothing."""
    likely = bool(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))
    return (likely, not likely)


def candidate_names(torch) -> List[str]:
    """File names of bridges that may fit, the likely one first."""
    kineto = has_kineto(torch)
    names = [build.bridge_name(torch.__version__, abi, kineto) for abi in _abis(torch)]
    return names


def _source_key() -> str:
    """Changes with the sources of the bridge, so that a cached bridge is of these."""
    folder = build.find_sources()
    digest = hashlib.sha256()
    for name in sorted(os.listdir(folder)) if folder else ():
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            with open(path, "rb") as file:
                digest.update(name.encode() + file.read())
    return digest.hexdigest()[:12]


def cached_path(torch) -> str:
    """Path of the bridge that was, or would be, built at first use for exactly this PyTorch."""
    name = candidate_names(torch)[0][:-3]
    version = "".join(c if c.isalnum() or c in ".-" else "_" for c in str(torch.__version__))
    return os.path.join(cache_folder(), "%s-%s-%s.so" % (name, version, _source_key()))


def find_bridges(torch) -> List[str]:
    """Paths of the bridges that may fit, in the order in which they are tried."""
    found = []
    for folder in _folders():
        for name in candidate_names(torch):
            path = os.path.join(folder, name)
            if os.path.exists(path):
                found.append(path)
    cached = cached_path(torch)
    if os.path.exists(cached):
        found.append(cached)
    return found


def _declare(bridge: ctypes.CDLL) -> ctypes.CDLL:
    text = [ctypes.c_char_p, ctypes.c_size_t]
    bridge.ckineto_torch_minor.restype = ctypes.c_int
    bridge.ckineto_torch_features.restype = ctypes.c_uint32
    bridge.ckineto_torch_attach_recorder.argtypes = [ctypes.c_void_p] + text
    bridge.ckineto_torch_counts.argtypes = [ctypes.POINTER(ctypes.c_uint64), ctypes.c_size_t]
    bridge.ckineto_torch_counts.restype = None
    bridge.ckineto_torch_release_memory.restype = None
    if bridge.ckineto_torch_features() & SEAT:
        bridge.ckineto_torch_attach_seat.argtypes = [ctypes.c_char_p] + text
        bridge.ckineto_torch_attach_guest.argtypes = [ctypes.c_char_p] + text
        if hasattr(bridge, "ckineto_torch_stop_daemon_client"):
            bridge.ckineto_torch_stop_daemon_client.argtypes = text
    return bridge


def _check_minor(bridge: ctypes.CDLL, torch, path: str) -> None:
    major, minor = build.parse_minor(torch.__version__)
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
    return ("there is no bridge for PyTorch %s; to build one with this PyTorch's headers (needs g++), run: "
            "PYTHONPATH=%s %s -m ckineto_attach.torch_bridge" %
            (torch.__version__, folder, sys.executable or "python3"))


def include_folder(torch) -> Optional[str]:
    """Folder of PyTorch's headers; None if they are not installed."""
    folder = os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), "include")
    for candidate in (folder, "/usr/include"):
        if os.path.exists(os.path.join(candidate, "ATen", "record_function.h")):
            return candidate
    return None


def build_now(torch) -> str:
    """Build the bridge for this PyTorch into the cache. @return its path. Raises build.BuildError."""
    include = include_folder(torch)
    if not include:
        raise build.BuildError("the headers of PyTorch %s are not installed" % torch.__version__)
    path = cached_path(torch)
    abi = _abis(torch)[0] if include != "/usr/include" else True
    build.build_bridge(include, torch.__version__, path, abi, has_kineto(torch))
    return path


def start_build(torch) -> bool:
    """Build the bridge in a process of its own, for the next run. False: it cannot be started."""
    if not include_folder(torch) or not build.find_sources():
        return False
    environment = {k: v for k, v in os.environ.items()
                   if not k.startswith(("CKINETO_", "KINETO_", "LD_PRELOAD", "TORCH_DEVICE_"))}
    environment["PYTHONPATH"] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    try:
        subprocess.Popen([sys.executable, "-m", "ckineto_attach.torch_bridge"], env=environment,
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL, start_new_session=True, close_fds=True)
        return True
    except OSError:
        return False


def _call(function, *arguments) -> None:
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    if function(*arguments, text, _TEXT_BYTES) != 0:
        raise AttachError(text.value.decode("utf-8", "replace"))


_observer_type = ctypes.PYFUNCTYPE(None, ctypes.c_int)


def attach_recorder() -> ctypes.CDLL:
    """Operators of PyTorch are recorded whenever a session of ckineto wants them. Once per process;
    raises AttachError."""
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
    """torch.profiler runs on ckineto from now on. Raises AttachError."""
    import torch

    from . import seat_hooks, torch_hooks

    with _lock:
        bridge = load_bridge(torch)
        if not bridge.ckineto_torch_features() & SEAT:
            raise AttachError("this PyTorch has no libkineto whose place could be taken; its operators "
                              "are recorded by 'ckineto record'")
        library.load_full()
        _call(bridge.ckineto_torch_attach_seat, _full_library())
        # Each hook is a frame in the stacks of torch.profiler: only where requests count iterations.
        if any(os.environ.get(name) for name in _ON_DEMAND):
            torch_hooks.install_steps(in_seat=True)
        seat_hooks.install()
        return bridge


def stop_daemon_client() -> None:
    """libkineto asks a daemon for requests no more: ckineto does. Raises AttachError."""
    import torch

    with _lock:
        bridge = load_bridge(torch)
        if not bridge.ckineto_torch_features() & SEAT:
            return  # there is no libkineto
        if not hasattr(bridge, "ckineto_torch_stop_daemon_client"):
            raise AttachError("the bridge is older than ckineto_attach; build it again")
        _call(bridge.ckineto_torch_stop_daemon_client)


def attach_guest() -> ctypes.CDLL:
    """ckineto's plug-ins take part in profiles by libkineto from now on. Raises AttachError."""
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
    """What the recorder saw: for tests and `ckineto doctor`."""
    names = ("starts", "stops", "registrations", "too_deep", "ended_elsewhere", "ended_unknown",
             "collectives", "memory")
    values = (ctypes.c_uint64 * len(names))()
    if _bridge is not None:
        _bridge.ckineto_torch_counts(values, len(names))
    return dict(zip(names, values))


def main() -> int:
    """Build the bridge for the PyTorch of this Python."""
    import torch

    try:
        path = build_now(torch)
        sys.stdout.write("%s\n" % path)
        return 0
    except (build.BuildError, OSError) as error:
        sys.stderr.write("ckineto: %s\n" % error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
